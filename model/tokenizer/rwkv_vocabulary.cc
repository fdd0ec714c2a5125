#include "model/tokenizer/rwkv_vocabulary.h"

#include "model/files/parse_number.h"
#include "model/tokenizer/steps/byte_level.h"
#include "model/tokenizer/text/utf8.h"
#include "model/tokenizer/vocabulary_lines.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::size_t kLongestToken = 1024;  // bytes; the longest known token has 128

enum class Literal : std::uint8_t { text, bytes };

// The value of `digits` hexadecimal digits at the beginning of a text, which are removed from it.
std::optional<std::uint32_t> take_number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  const auto value = parse_number<std::uint32_t>(text.substr(0, digits), 16);
  if (value) text.remove_prefix(digits);
  return value;
}

// Appends the character of an escape sequence, after its backslash. Returns false if the text is no escape
// sequence.
bool take_escape(std::string_view& text, Literal kind, std::string& out) {
  if (text.empty()) return false;
  const char name = text.front();
  text.remove_prefix(1);
  if (name == 'x' || ((name == 'u' || name == 'U') && kind == Literal::text)) {
    const auto value = take_number(text, name == 'x' ? 2 : name == 'u' ? 4 : 8);
    if (!value || *value > 0x10FFFF || (*value >= 0xD800 && *value <= 0xDFFF)) return false;
    if (kind == Literal::bytes)
      out.push_back(static_cast<char>(*value));
    else
      utf8::append(out, *value);
    return true;
  }
  constexpr std::string_view kNames = "ntr\\'\"";
  constexpr std::string_view kCharacters = "\n\t\r\\'\"";
  const std::size_t place = kNames.find(name);
  if (place == kNames.npos) return false;
  out.push_back(kCharacters[place]);
  return true;
}

std::optional<std::string> unescaped(std::string_view text, Literal kind) {
  std::string out;
  while (!text.empty()) {
    const char character = text.front();
    text.remove_prefix(1);
    if (character != '\\')
      out.push_back(character);
    else if (!take_escape(text, kind, out))
      return std::nullopt;
  }
  return out;
}

// The bytes of 'text' or b'bytes', in single or double quotes.
std::optional<std::string> bytes_of_literal(std::string_view literal) {
  const Literal kind = literal.starts_with('b') ? Literal::bytes : Literal::text;
  if (kind == Literal::bytes) literal.remove_prefix(1);
  const bool is_quoted = literal.size() >= 2 && literal.front() == literal.back() &&
                         (literal.front() == '\'' || literal.front() == '"');
  return is_quoted ? unescaped(literal.substr(1, literal.size() - 2), kind) : std::nullopt;
}

struct Line {
  TokenId id = 0;
  std::string bytes;
};

Line read_line(std::string_view line, std::size_t number, const std::string& file) {
  const std::size_t first = std::min(line.find(' '), line.size());
  const std::size_t last = line.rfind(' ');
  const auto id = parse_number<TokenId>(line.substr(0, first));
  const bool has_three = last != line.npos && first < last;
  const std::optional<std::string> bytes =
      has_three ? bytes_of_literal(line.substr(first + 1, last - first - 1)) : std::nullopt;
  const std::size_t size = has_three ? parse_number<std::size_t>(line.substr(last + 1)).value_or(0) : 0;
  require<CheckpointError>(
      id && *id >= 1 && *id < kMaxVocabularySize && bytes && size == bytes->size() && size >= 1 &&
          size <= kLongestToken,
      "{}: line {} must be an id from 1 to {}, a token in quotes, and the number of its bytes, at most {}; "
      "found {} characters that differ; the file may be damaged, get it again",
      file, number, kMaxVocabularySize - 1, kLongestToken, line.size());
  return {*id, *bytes};
}

// Tokens in the byte-level alphabet, by id.
std::map<TokenId, std::string> read_lines(const std::filesystem::path& file) {
  std::map<TokenId, std::string> tokens;
  for_each_vocabulary_line(file, [&](const std::string& line, std::size_t number) {
    const Line token = read_line(line, number, file.string());
    const auto [place, is_new] = tokens.try_emplace(token.id);
    require<CheckpointError>(is_new,
                             "{}: line {} has the id {} a second time, expected a different one; the file "
                             "may be damaged, get it again",
                             file.string(), number, token.id);
    byte_level::append_encoded(place->second, token.bytes);
  });
  return tokens;
}

}  // namespace

std::optional<std::string> bytes_of_escaped(std::string_view text) { return unescaped(text, Literal::bytes); }

std::string escaped_bytes(std::string_view bytes) {
  const bool has_both_quotes =
      bytes.find('\'') != std::string_view::npos && bytes.find('"') != std::string_view::npos;
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    if (byte == '\n')
      text += "\\n";
    else if (byte == '\t')
      text += "\\t";
    else if (byte == '\r')
      text += "\\r";
    else if (byte == '\\' || (byte == '\'' && has_both_quotes))
      text += {'\\', byte};
    else if (value < 0x20 || value >= 0x7F)
      text += fmt::format("\\x{:02x}", value);
    else
      text += byte;
  }
  return text;
}

std::optional<int> byte_without_token(const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    byte_level::append_encoded(text, std::string(1, static_cast<char>(byte)));
    if (!vocabulary.find(text)) return byte;
  }
  return std::nullopt;
}

TokenizerParts longest_match_parts(const std::vector<std::pair<std::string_view, TokenId>>& tokens,
                                   const std::string& source) {
  std::vector<std::string_view> texts;
  for (const auto& token : tokens) texts.push_back(token.first);
  std::ranges::sort(texts);
  const auto twice = std::ranges::adjacent_find(texts);
  require<CheckpointError>(twice == texts.end(),
                           "{}: expected different tokens, found two with the same bytes (\"{}\"); the file "
                           "may be damaged, get it again",
                           source, twice == texts.end() ? "" : *twice);
  Vocabulary vocabulary(tokens);
  const std::optional<int> missing = byte_without_token(vocabulary);
  require<CheckpointError>(!missing,
                           "{}: expected a token for every byte, found none for {}; the file may be damaged, "
                           "get it again",
                           source, missing.value_or(0));
  // With a token for every byte, nothing is unknown.
  TokenizerParts parts{.model = WordPiece(std::move(vocabulary), {.unknown = tokens.front().second,
                                                                  .continuing_prefix = "",
                                                                  .max_characters = SIZE_MAX})};
  parts.pre_tokenizer = PreTokenizer({ByteLevelSplit(false, false)});
  parts.decoder = TokenDecoder::byte_level();
  return parts;
}

TokenizerParts parts_from_rwkv_vocabulary(const std::filesystem::path& file) {
  constexpr TokenId kEnd = 0;
  const std::map<TokenId, std::string> tokens = read_lines(file);
  std::vector<std::pair<std::string_view, TokenId>> texts;
  for (const auto& [id, text] : tokens) texts.emplace_back(text, id);
  TokenizerParts parts = longest_match_parts(texts, file.string());
  parts.added = AddedTokens({{.id = kEnd, .content = "<s>", .special = true, .reserved = true}});
  parts.bos = parts.eos = kEnd;
  return parts;
}

}  // namespace tp
