#include "model/tokenizer/token_decoder.h"

#include "model/tokenizer/json_pattern.h"
#include "model/tokenizer/json_sequence.h"

#include <limits>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

ReplaceDecoder replace_from_json(const JsonNode& json, bool joined) {
  const JsonNode pattern = json.at("pattern");
  std::optional<std::string> literal;
  if (const std::optional<JsonNode> text = pattern.find("String")) literal = text->string();
  if (joined && (!literal || literal->empty()))
    pattern.fail("a regular expression behind a decoder that joins all tokens",
                 "a string, which can be searched for in text that is still growing", "use another model");
  return ReplaceDecoder(pattern_from_json(pattern), literal, json.at("content").string(), joined);
}

StripDecoder strip_from_json(const JsonNode& json, bool joined) {
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  return StripDecoder(json.at("content").character(),
                      static_cast<std::size_t>(json.at("start").integer_below(limit)),
                      static_cast<std::size_t>(json.at("stop").integer_below(limit)), joined);
}

}  // namespace

TokenDecoder TokenDecoder::from_json(const JsonNode& json) {
  TokenDecoder decoder;
  decoder.parts_.clear();
  bool joined = false;
  for_each_in_sequence(json, "decoders", [&](const JsonNode& part) {
    const std::string& type = part.type();
    if (type == "Fuse") {
      joined = true;
    } else if (type == "ByteLevel") {
      decoder.parts_.emplace_back(ByteLevelDecoder());
      joined = true;
    } else if (type == "ByteFallback") {
      decoder.parts_.emplace_back(ByteFallbackDecoder());
    } else if (type == "Replace") {
      decoder.parts_.emplace_back(replace_from_json(part, joined));
    } else if (type == "Strip") {
      decoder.parts_.emplace_back(strip_from_json(part, joined));
    } else if (type == "Metaspace") {
      decoder.parts_.emplace_back(
          MetaspaceDecoder(part.at("replacement").character(), prepend_scheme_from_json(part), joined));
    } else {
      part.fail_unsupported_type("Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace or Metaspace");
    }
  });
  return decoder;
}

TokenDecoder TokenDecoder::sentencepiece(bool strips_space) {
  constexpr std::string_view kMark = "\u2581";
  TokenDecoder decoder;
  decoder.parts_.clear();
  decoder.parts_.emplace_back(ReplaceDecoder(Regex::literal(kMark), std::string(kMark), " ", false));
  decoder.parts_.emplace_back(ByteFallbackDecoder());
  if (strips_space) decoder.parts_.emplace_back(StripDecoder(" ", 1, 0, true));
  return decoder;
}

// Sends `tokens` through the parts, each of which may add what it kept: end(part, out).
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

void TokenDecoder::settle(std::string& out) {
  run({}, out, [](auto& step, TokenTexts& rest) { step.settle(rest); });
}

void TokenDecoder::finish(std::string& out) {
  run({}, out, [](auto& step, TokenTexts& rest) { step.finish(rest); });
}

}  // namespace tp
