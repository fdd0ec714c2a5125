#include "model/tokenizer/steps/normalizer.h"

#include "model/tokenizer/steps/bert_normalizer.h"
#include "model/tokenizer/steps/byte_level.h"
#include "model/tokenizer/steps/json_pattern.h"
#include "model/tokenizer/steps/json_sequence.h"
#include "model/tokenizer/text/base64.h"
#include "model/tokenizer/text/precompiled_map.h"
#include "model/tokenizer/text/unicode.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

PrecompiledMap map_from_json(const JsonNode& json) {
  const std::optional<std::string> bytes = decoded_base64(json.string());
  std::optional<PrecompiledMap> map = bytes ? PrecompiledMap::from_bytes(*bytes) : std::nullopt;
  if (!map) json.fail(fmt::format("{} bytes", json.string().size()), "a table of characters in base64");
  return std::move(*map);
}

BertNormalizer bert_from_json(const JsonNode& json) {
  BertNormalizer::Options options;
  options.clean_text = json.boolean_or("clean_text", true);
  options.spaces_around_chinese = json.boolean_or("handle_chinese_chars", true);
  options.lowercase = json.boolean_or("lowercase", true);
  options.strip_accents = json.boolean_or("strip_accents", options.lowercase);
  return BertNormalizer(options);
}

std::string in_byte_level_alphabet(const std::string& text) {
  std::string out;
  byte_level::append_encoded(out, text);
  return out;
}

// The first step of SentencePiece's rules for machine translation ("nmt"), before NFKC: removes control
// characters, and converts invisible and special characters to spaces.
Normalizer::Rewrite nmt_cleaning() {
  return [control = Regex::from_oniguruma(R"([\x01-\x08\x0B\x0E-\x1F\x7F\u008F\u009F])"),
          space = Regex::from_oniguruma(R"([\t\n\f\r\u1680\u200B-\u200F\u2028\u2029\u2581\uFEFF\uFFFD])")](
             const std::string& text) { return space.replace(control.replace(text, ""), " "); };
}

// The `tokenizers` library regards a replacement as the last replaced character, which may not be the first.
std::size_t start_after_replacing(const Regex& pattern, const std::string& content, const std::string& text,
                                  std::size_t start) {
  std::size_t after = 0;
  std::size_t done = 0;
  for (const Span& match : pattern.matches(text)) {
    if (match.begin > start) break;
    after += match.begin - done;
    if (match.end > start) return after;
    after += content.size();
    done = match.end;
  }
  return after + start - done;
}

}  // namespace

Normalizer::Rewrite Normalizer::rewrite_from_json(const JsonNode& json) {
  using unicode::Form;
  const std::string& type = json.type();
  if (type == "NFC") return [](std::string text) { return unicode::normalize(std::move(text), Form::nfc); };
  if (type == "NFD") return [](std::string text) { return unicode::normalize(std::move(text), Form::nfd); };
  if (type == "NFKC") return [](std::string text) { return unicode::normalize(std::move(text), Form::nfkc); };
  if (type == "NFKD") return [](std::string text) { return unicode::normalize(std::move(text), Form::nfkd); };
  if (type == "Lowercase") return [](const std::string& text) { return unicode::to_lower(text); };
  if (type == "StripAccents") return [](const std::string& text) { return unicode::without_marks(text); };
  if (type == "BertNormalizer") return bert_from_json(json);
  if (type == "ByteLevel") return in_byte_level_alphabet;
  if (type == "Nmt") return nmt_cleaning();
  if (type == "Prepend") {
    return [prefix = json.at("prepend").string()](const std::string& text) {
      return text.empty() ? text : prefix + text;
    };
  }
  if (type == "Replace") {
    return [pattern = pattern_from_json(json.at("pattern")), content = json.at("content").string()](
               const std::string& text) { return pattern.replace(text, content); };
  }
  if (type == "Strip") {
    const bool left = json.boolean_or("strip_left", true);
    const bool right = json.boolean_or("strip_right", true);
    return [left, right](const std::string& text) { return unicode::stripped(text, left, right); };
  }
  if (type == "Precompiled") {
    return [map = map_from_json(json.at("precompiled_charsmap"))](const std::string& text) {
      return map.normalize(text);
    };
  }
  json.fail_unsupported_type(
      "Sequence, NFC, NFD, NFKC, NFKD, BertNormalizer, ByteLevel, Lowercase, Nmt, Prepend, Replace, Strip, "
      "StripAccents or Precompiled");
}

Normalizer::Step Normalizer::step_from_json(const JsonNode& json) {
  Step step{rewrite_from_json(json)};
  if (json.type() == "Replace") {
    step.start_after = [pattern = pattern_from_json(json.at("pattern")),
                        content = json.at("content").string()](const std::string& text, std::size_t start) {
      return start_after_replacing(pattern, content, text, start);
    };
  }
  // The `tokenizers` library does not record that this step deletes the first character.
  if (json.type() == "Precompiled") {
    step.start_after = [rewrite = step.rewrite](const std::string& text, std::size_t start) {
      return std::max<std::size_t>(1, rewrite(text.substr(0, start)).size());
    };
  }
  return step;
}

Normalizer Normalizer::from_json(const JsonNode& json) {
  Normalizer normalizer;
  for_each_in_sequence(json, "normalizers",
                       [&](const JsonNode& part) { normalizer.steps_.push_back(step_from_json(part)); });
  return normalizer;
}

std::string Normalizer::operator()(std::string text) const {
  for (const Step& step : steps_) text = step.rewrite(std::move(text));
  return text;
}

std::string Normalizer::operator()(std::string text, std::size_t& start) const {
  for (const Step& step : steps_) {
    if (start != 0)
      start = step.start_after ? step.start_after(text, start) : step.rewrite(text.substr(0, start)).size();
    text = step.rewrite(std::move(text));
    start = std::min(start, text.size());
  }
  return text;
}

}  // namespace tp
