#include "model/tokenizer/steps/decoder_parts.h"

#include "model/files/parse_number.h"
#include "model/tokenizer/steps/byte_level.h"
#include "model/tokenizer/text/utf8.h"

#include <algorithm>

namespace tp {
namespace {

void hand_on(std::string_view text, TokenTexts& out) {
  if (!text.empty()) out.emplace_back(text);
}

// The byte of a token <0xNN>; nullopt for other tokens.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  const auto byte = parse_number<unsigned>(token.substr(3, 2), 16);
  return byte ? std::optional(static_cast<char>(*byte)) : std::nullopt;
}

// The length of the longest suffix of `text` that is a proper prefix of `literal`.
std::size_t overlap(std::string_view text, std::string_view literal) {
  std::size_t length = std::min(text.size(), literal.size() - 1);
  while (!literal.starts_with(text.substr(text.size() - length))) --length;
  return length;
}

}  // namespace

void JoinWithSpaces::push(std::string_view token, TokenTexts& out) {
  if (!is_first_) out.emplace_back(" ");
  is_first_ = false;
  out.emplace_back(token);
}

void ByteLevelDecoder::push(std::string_view token, TokenTexts& out) {
  byte_level::append_decoded(pending_, token);
  const std::size_t certain = pending_.size() - utf8::incomplete_tail(pending_);
  std::string text;
  utf8::append_repaired(text, std::string_view(pending_).substr(0, certain));
  pending_.erase(0, certain);
  hand_on(text, out);
}

std::string ByteLevelDecoder::bytes_of(std::string_view token) {
  std::string bytes;
  byte_level::append_decoded(bytes, token);
  return bytes;
}

void ByteLevelDecoder::finish(TokenTexts& out) {
  if (!pending_.empty()) out.emplace_back(utf8::kReplacement);
  pending_.clear();
}

void ByteFallbackDecoder::push(std::string_view token, TokenTexts& out) {
  if (const std::optional<char> byte = byte_of(token)) return push_byte(*byte, out);
  finish(out);
  out.emplace_back(token);
}

std::string ByteFallbackDecoder::bytes_of(std::string_view token) {
  const std::optional<char> byte = byte_of(token);
  return byte ? std::string(1, *byte) : std::string(token);
}

void ByteFallbackDecoder::push_byte(char byte, TokenTexts& out) {
  run_.push_back(byte);
  if (!is_broken_) {
    const utf8::Character last = utf8::first_character(std::string_view(run_).substr(complete_));
    if (last.status == utf8::Status::ok) complete_ = run_.size();
    is_broken_ = last.status == utf8::Status::invalid;
  }
  if (!is_broken_) return;
  out.insert(out.end(), run_.size(), std::string(utf8::kReplacement));
  run_.clear();
}

void ByteFallbackDecoder::flush(TokenTexts& out) {
  hand_on(std::string_view(run_).substr(0, complete_), out);
  run_.erase(0, complete_);
  complete_ = 0;
  is_broken_ = false;
}

void ByteFallbackDecoder::finish(TokenTexts& out) {
  if (complete_ == run_.size())
    hand_on(run_, out);
  else
    out.insert(out.end(), run_.size(), std::string(utf8::kReplacement));
  run_.clear();
  complete_ = 0;
  is_broken_ = false;
}

ReplaceDecoder::ReplaceDecoder(Regex pattern, std::optional<std::string> literal, std::string content,
                               bool joined)
    : pattern_(std::move(pattern)),
      literal_(std::move(literal).value_or("")),
      content_(std::move(content)),
      joined_(joined) {}

void ReplaceDecoder::push(std::string_view token, TokenTexts& out) {
  if (!joined_ || literal_.empty()) {
    out.push_back(pattern_.replace(token, content_));
    return;
  }
  pending_.append(token);
  const std::vector<Span> matches = pattern_.matches(pending_);
  const std::size_t behind_matches = matches.empty() ? 0 : matches.back().end;
  const std::size_t kept = overlap(std::string_view(pending_).substr(behind_matches), literal_);
  const std::string_view certain = std::string_view(pending_).substr(0, pending_.size() - kept);
  hand_on(pattern_.replace(certain, content_), out);
  pending_.erase(0, certain.size());
}

void ReplaceDecoder::flush(TokenTexts& out) {
  hand_on(pending_, out);
  pending_.clear();
}

// A literal may stand between bytes that are not characters.
std::string ReplaceDecoder::bytes_of(std::string_view token) const {
  if (literal_.empty()) return pattern_.replace(token, content_);
  std::string bytes(token);
  for (std::size_t place = 0; (place = bytes.find(literal_, place)) != std::string::npos;
       place += content_.size())
    bytes.replace(place, literal_.size(), content_);
  return bytes;
}

StripDecoder::StripDecoder(std::string character, std::size_t start, std::size_t stop, bool joined)
    : character_(std::move(character)), start_(start), stop_(stop), joined_(joined), start_left_(start) {}

std::string_view StripDecoder::without_start(std::string_view text) {
  while (start_left_ > 0 && text.starts_with(character_)) {
    text.remove_prefix(character_.size());
    --start_left_;
  }
  if (!text.empty()) start_left_ = 0;
  return text;
}

std::size_t StripDecoder::strippable_end(std::string_view text) const {
  std::size_t length = 0;
  for (std::size_t i = 0; i < stop_ && text.ends_with(character_); ++i) {
    text.remove_suffix(character_.size());
    length += character_.size();
  }
  return length;
}

void StripDecoder::push(std::string_view token, TokenTexts& out) {
  if (!joined_) {
    start_left_ = start_;
    token = without_start(token);
    token.remove_suffix(strippable_end(token));
    out.emplace_back(token);
    return;
  }
  pending_.append(without_start(token));
  const std::size_t certain = pending_.size() - strippable_end(pending_);
  hand_on(std::string_view(pending_).substr(0, certain), out);
  pending_.erase(0, certain);
}

std::string StripDecoder::bytes_of(std::string_view token) const {
  if (joined_) return std::string(token);
  for (std::size_t i = 0; i < start_ && token.starts_with(character_); ++i)
    token.remove_prefix(character_.size());
  token.remove_suffix(strippable_end(token));
  return std::string(token);
}

void StripDecoder::flush(TokenTexts& out) {
  hand_on(pending_, out);
  pending_.clear();
}

MetaspaceDecoder::MetaspaceDecoder(const std::string& mark, PrependScheme scheme, bool joined)
    : mark_(Regex::literal(mark)), joined_(joined), drops_marks_(scheme != PrependScheme::never) {}

void MetaspaceDecoder::push(std::string_view token, TokenTexts& out) {
  out.push_back(mark_.replace(token, drops_marks_ ? "" : " "));
  if (!joined_) drops_marks_ = false;
}

}  // namespace tp
