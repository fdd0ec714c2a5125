#include "model/tokenizer/models/bpe_json.h"

#include "model/tokenizer/models/vocabulary_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// A merge is the string "left right" or the list ["left", "right"].
std::pair<std::string_view, std::string_view> merge_texts(const JsonNode& json, std::size_t index) {
  constexpr std::string_view kExpected = "two strings, or one with a single space in it";
  const auto fail = [&]() { json.elements()[index].fail_type(kExpected); };
  const nlohmann::json& value = json.value()[index];
  if (value.is_array()) {
    if (value.size() != 2 || !value[0].is_string() || !value[1].is_string()) fail();
    return {value[0].get_ref<const std::string&>(), value[1].get_ref<const std::string&>()};
  }
  if (!value.is_string()) fail();
  const std::string_view text = value.get_ref<const std::string&>();
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) fail();
  return {text.substr(0, space), text.substr(space + 1)};
}

std::vector<Bpe::Merge> merges_from_json(const JsonNode& json, const Vocabulary& vocabulary) {
  if (!json.is_array()) json.fail_type("a list");
  const auto find = [&](std::string_view token, std::size_t index) {
    const std::optional<TokenId> id = vocabulary.find(token);
    if (!id) json.elements()[index].fail(fmt::format("the token '{}'", token), "tokens of the vocabulary");
    return *id;
  };
  std::vector<Bpe::Merge> merges;
  merges.reserve(json.value().size());
  for (std::size_t i = 0; i < json.value().size(); ++i) {
    const auto [left, right] = merge_texts(json, i);
    merges.push_back({find(left, i), find(right, i), find(std::string(left).append(right), i),
                      static_cast<MergeTable::Rank>(i)});
  }
  return merges;
}

// Refuses parts of the format that no decoder language model is known to use.
void refuse_unsupported(const JsonNode& json) {
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::optional<JsonNode> affix = json.find(key);
    if (affix && !affix->string().empty()) affix->fail_type("none: tp-infer does not support it yet");
  }
  const std::optional<JsonNode> dropout = json.find("dropout");
  if (dropout && !(dropout->value().is_number() && dropout->value().get<double>() == 0.0))
    dropout->fail_type("none: tp-infer does not drop merges at random");
}

}  // namespace

Bpe bpe_from_json(const JsonNode& json) {
  refuse_unsupported(json);
  Vocabulary vocabulary = vocabulary_from_json(json.at("vocab"));
  const std::vector<Bpe::Merge> merges = merges_from_json(json.at("merges"), vocabulary);
  Bpe::Options options;
  options.fuse_unknown = json.boolean_or("fuse_unk", false);
  options.byte_fallback = json.boolean_or("byte_fallback", false);
  options.ignore_merges = json.boolean_or("ignore_merges", false);
  if (const std::optional<JsonNode> unknown = json.find("unk_token")) {
    options.unknown = vocabulary.find(unknown->string());
    if (!options.unknown) unknown->fail_type("a token of the vocabulary");
  }
  return Bpe(std::move(vocabulary), merges, options);
}

}  // namespace tp
