#include "model/tokenizer/pre_tokenizer.h"

#include "model/tokenizer/json_pattern.h"
#include "model/tokenizer/json_sequence.h"

#include <nlohmann/json.hpp>

namespace tp {
namespace {

SplitBehavior behavior_from_json(const JsonNode& json) {
  const std::string& name = json.string();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  json.fail_type("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

Split split_by(std::string_view pattern, SplitBehavior behavior, bool invert = false) {
  return Split(Regex::from_oniguruma(pattern), behavior, invert);
}

PreTokenizerPart part_from_json(const JsonNode& json) {
  const std::string& type = json.type();
  if (type == "Split") {
    return Split(pattern_from_json(json.at("pattern")), behavior_from_json(json.at("behavior")),
                 json.boolean_or("invert", false));
  }
  if (type == "ByteLevel")
    return ByteLevelSplit(json.boolean_or("add_prefix_space", true), json.boolean_or("use_regex", true));
  if (type == "Metaspace") {
    return Metaspace(json.at("replacement").character(), prepend_scheme_from_json(json),
                     json.boolean_or("split", true));
  }
  if (type == "Digits") {
    return split_by(R"(\p{N})", json.boolean_or("individual_digits", false) ? SplitBehavior::isolated
                                                                            : SplitBehavior::contiguous);
  }
  if (type == "Punctuation") {
    const std::optional<JsonNode> behavior = json.find("behavior");
    return split_by(R"([\p{P}$+<=>^`|~])",
                    behavior ? behavior_from_json(*behavior) : SplitBehavior::isolated);
  }
  // Not Oniguruma's \w: this pattern is run by Rust's own engine.
  if (type == "Whitespace") {
    return split_by(R"([\w\u200C\u200D]+|[^\w\u200C\u200D\s]+)", SplitBehavior::removed, true);
  }
  if (type == "WhitespaceSplit") return split_by(R"(\s)", SplitBehavior::removed);
  json.fail_unsupported_type(
      "Sequence, Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace or WhitespaceSplit");
}

}  // namespace

PreTokenizer PreTokenizer::from_json(const JsonNode& json) {
  PreTokenizer pre_tokenizer;
  for_each_in_sequence(json, "pretokenizers",
                       [&](const JsonNode& part) { pre_tokenizer.parts_.push_back(part_from_json(part)); });
  return pre_tokenizer;
}

void PreTokenizer::operator()(PreTokens& tokens) const {
  for (const PreTokenizerPart& part : parts_) std::visit([&](const auto& step) { step(tokens); }, part);
}

}  // namespace tp
