#include "model/tokenizer/steps/byte_level.h"

#include "model/tokenizer/text/utf8.h"

#include <array>

namespace tp::byte_level {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

// The 68 other bytes map to U+0100, U+0101, ... in order.
constexpr unsigned kAlphabetSize = 0x100 + 68;

struct Alphabet {
  std::array<std::string, 256> character_of;
  std::array<int, kAlphabetSize> byte_of;  // -1: not in the alphabet

  Alphabet() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char32_t code_point = stands_for_itself(byte) ? byte : next++;
      utf8::append(character_of[byte], code_point);
      byte_of[code_point] = static_cast<int>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

void append_encoded(std::string& out, std::string_view text) {
  const Alphabet& table = alphabet();
  for (const char byte : text) out.append(table.character_of[static_cast<unsigned char>(byte)]);
}

void append_decoded(std::string& out, std::string_view token) {
  const Alphabet& table = alphabet();
  const std::size_t size_before = out.size();
  for (std::string_view rest = token; !rest.empty();) {
    const utf8::Character character = utf8::first_character(rest);
    const int byte = character.code_point < kAlphabetSize ? table.byte_of[character.code_point] : -1;
    if (byte < 0) {
      out.resize(size_before);
      out.append(token);
      return;
    }
    out.push_back(static_cast<char>(byte));
    rest.remove_prefix(character.length);
  }
}

}  // namespace tp::byte_level
