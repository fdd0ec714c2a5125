#include "model/tokenizer/text/utf8.h"

namespace tp::utf8 {
namespace {

// The bytes that may follow a first byte: their number, and the range of the second byte, which excludes
// overlong forms, surrogates and code points above U+10FFFF.
struct Form {
  unsigned following;
  unsigned char second_min;
  unsigned char second_max;
};

Form form_of(unsigned char first) {
  if (first < 0x80) return {0, 0, 0};
  if (first >= 0xC2 && first <= 0xDF) return {1, 0x80, 0xBF};
  if (first == 0xE0) return {2, 0xA0, 0xBF};
  if (first == 0xED) return {2, 0x80, 0x9F};
  if (first >= 0xE1 && first <= 0xEF) return {2, 0x80, 0xBF};
  if (first == 0xF0) return {3, 0x90, 0xBF};
  if (first >= 0xF1 && first <= 0xF3) return {3, 0x80, 0xBF};
  if (first == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

constexpr char32_t replacement_character = 0xFFFD;

}  // namespace

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, Status::ok};
  const Form form = form_of(first);
  if (form.following == 0) return {replacement_character, 1, Status::invalid};
  char32_t code_point = first & (0x3Fu >> form.following);
  for (std::size_t i = 1; i <= form.following; ++i) {
    if (i == text.size()) return {replacement_character, i, Status::truncated};
    const unsigned char min = i == 1 ? form.second_min : 0x80;
    const unsigned char max = i == 1 ? form.second_max : 0xBF;
    if (byte(i) < min || byte(i) > max) return {replacement_character, i, Status::invalid};
    code_point = (code_point << 6) | (byte(i) & 0x3Fu);
  }
  return {code_point, form.following + 1, Status::ok};
}

char32_t last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return first_character(text.substr(begin)).code_point;
}

void append(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto put_following = [&](unsigned shift) { put(0x80 | ((code_point >> shift) & 0x3F)); };
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put_following(6);
  } else {
    put(0xF0 | (code_point >> 18));
    put_following(12);
    put_following(6);
  }
  put_following(0);
}

std::size_t valid_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const Character character = first_character(text.substr(length));
    if (character.status != Status::ok) break;
    length += character.length;
  }
  return length;
}

bool is_valid(std::string_view text) { return valid_length(text) == text.size(); }

void append_repaired(std::string& out, std::string_view text) {
  out.reserve(out.size() + text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    out.append(character.status == Status::ok ? text.substr(0, character.length) : kReplacement);
    text.remove_prefix(character.length);
  }
}

std::size_t incomplete_tail(std::string_view text) {
  for (std::size_t length = 1; length <= 3 && length <= text.size(); ++length) {
    const std::string_view tail = text.substr(text.size() - length);
    const Character character = first_character(tail);
    if (character.status == Status::truncated && character.length == length) return length;
  }
  return 0;
}

}  // namespace tp::utf8
