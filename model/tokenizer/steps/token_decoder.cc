#include "model/tokenizer/steps/token_decoder.h"

#include "model/tokenizer/steps/json_pattern.h"
#include "model/tokenizer/steps/json_sequence.h"

#include <limits>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

ReplaceDecoder replace_from_json(const JsonNode& json, bool joined) {
  const JsonNode pattern = json.at("pattern");
  std::optional<std::string> literal;
  if (const std::optional<JsonNode> text = pattern.find("String")) literal = text->string();
  if (joined && (!literal || literal->empty()))
    pattern.fail("a regular expression after a decoder that joins all tokens",
                 "a string, which can be searched for in text that is still growing", "use another model");
  return ReplaceDecoder(pattern_from_json(pattern), literal, json.at("content").string(), joined);
}

StripDecoder strip_from_json(const JsonNode& json, bool joined) {
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  return StripDecoder(json.at("content").character(),
                      static_cast<std::size_t>(json.at("start").integer_below(limit)),
                      static_cast<std::size_t>(json.at("stop").integer_below(limit)), joined);
}

std::string text_that_is_not_empty(const JsonNode& json) {
  if (json.string().empty()) json.fail_type("a text that is not empty");
  return json.string();
}

bool is_of_words(const std::string& type) {
  return type == "WordPiece" || type == "BPEDecoder" || type == "CTC";
}

DecoderPart word_decoder_from_json(const JsonNode& json, bool joined) {
  const std::string& type = json.type();
  if (joined)
    json.fail(type + " after a decoder that joins all tokens", "it in front of that", "use another model");
  if (type == "WordPiece") return WordPieceDecoder(json.at("prefix").string(), json.at("cleanup").boolean());
  if (type == "BPEDecoder") return WordEndDecoder(text_that_is_not_empty(json.at("suffix")));
  return CtcDecoder(json.at("pad_token").string(), text_that_is_not_empty(json.at("word_delimiter_token")),
                    json.at("cleanup").boolean());
}

DecoderPart decoder_part_from_json(const JsonNode& json, bool joined) {
  const std::string& type = json.type();
  if (type == "ByteLevel") return ByteLevelDecoder();
  if (type == "ByteFallback") return ByteFallbackDecoder();
  if (type == "Replace") return replace_from_json(json, joined);
  if (type == "Strip") return strip_from_json(json, joined);
  if (type == "Metaspace")
    return MetaspaceDecoder(json.at("replacement").character(), prepend_scheme_from_json(json), joined);
  if (is_of_words(type)) return word_decoder_from_json(json, joined);
  json.fail_unsupported_type(
      "Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, WordPiece, BPEDecoder or CTC");
}

// Steps for words have tokens of whole characters. They first get an empty token, so that `token` is not the
// first one.
template <class Step>
std::string bytes_amid_others(Step step, const std::string& token) {
  if constexpr (requires { step.bytes_of(token); }) {
    return step.bytes_of(token);
  } else {
    TokenTexts texts;
    step.push("", texts);
    texts.clear();
    step.push(token, texts);
    std::string bytes;
    for (const std::string& text : texts) bytes += text;
    return bytes;
  }
}

}  // namespace

TokenDecoder TokenDecoder::from_json(const JsonNode& json) {
  std::vector<DecoderPart> parts;
  bool joined = false;
  for_each_in_sequence(json, "decoders", [&](const JsonNode& part) {
    if (part.type() != "Fuse") parts.push_back(decoder_part_from_json(part, joined));
    joined |= part.type() == "Fuse" || part.type() == "ByteLevel";
  });
  return TokenDecoder(std::move(parts));
}

TokenDecoder TokenDecoder::sentencepiece(bool strips_space) {
  constexpr std::string_view kMark = "\u2581";
  std::vector<DecoderPart> parts = {ReplaceDecoder(Regex::literal(kMark), std::string(kMark), " ", false),
                                    ByteFallbackDecoder()};
  if (strips_space) parts.emplace_back(StripDecoder(" ", 1, 0, true));
  return TokenDecoder(std::move(parts));
}

TokenDecoder TokenDecoder::byte_level() { return TokenDecoder({ByteLevelDecoder()}); }

TokenDecoder TokenDecoder::word_piece() { return TokenDecoder({WordPieceDecoder("##", true)}); }

// Sends `tokens` through the parts. Each part may add text that it kept: end(part, out).
template <class End>
void TokenDecoder::run(TokenTexts tokens, std::string& out, End&& end) {
  for (DecoderPart& part : parts_) {
    TokenTexts next;
    std::visit(
        [&](auto& step) {
          for (const std::string& token : tokens) step.push(token, next);
          end(step, next);
        },
        part);
    tokens = std::move(next);
  }
  for (const std::string& token : tokens) out.append(token);
}

void TokenDecoder::push(std::string_view token, std::string& out) {
  run({std::string(token)}, out, [](auto&, TokenTexts&) {});
}

void TokenDecoder::flush(std::string& out) {
  run({}, out, [](auto& step, TokenTexts& rest) { step.flush(rest); });
}

std::string TokenDecoder::bytes_of(std::string_view token) const {
  std::string bytes(token);
  for (const DecoderPart& part : parts_)
    bytes = std::visit([&](const auto& step) { return bytes_amid_others(step, bytes); }, part);
  return bytes;
}

void TokenDecoder::finish(std::string& out) {
  run({}, out, [](auto& step, TokenTexts& rest) { step.finish(rest); });
}

}  // namespace tp
