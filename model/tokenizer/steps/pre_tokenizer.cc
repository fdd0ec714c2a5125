#include "model/tokenizer/steps/pre_tokenizer.h"

#include "model/tokenizer/steps/json_pattern.h"
#include "model/tokenizer/steps/json_sequence.h"
#include "model/tokenizer/steps/script_runs.h"

#include <fmt/format.h>
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

constexpr std::string_view kPunctuation = R"([\p{P}$+<=>^`|~])";

// Cuts a text into pieces with an equal number of characters.
Split fixed_length_from_json(const JsonNode& json) {
  constexpr std::size_t longest_repetition = 65535;  // limit of PCRE2
  const std::size_t length = json.size_or("length", 5);
  if (length > longest_repetition)
    json.fail(fmt::format("pieces of {} characters", length), fmt::format("at most {}", longest_repetition));
  return split_by(fmt::format("[\\s\\S]{{1,{}}}", length), SplitBehavior::isolated);
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
    return split_by(kPunctuation, behavior ? behavior_from_json(*behavior) : SplitBehavior::isolated);
  }
  // Not Oniguruma's \w, because Rust's own engine executes this pattern.
  if (type == "Whitespace") {
    return split_by(R"([\w\u200C\u200D]+|[^\w\u200C\u200D\s]+)", SplitBehavior::removed, true);
  }
  if (type == "WhitespaceSplit") return split_by(R"(\s)", SplitBehavior::removed);
  if (type == "CharDelimiterSplit")
    return Split(Regex::literal(json.at("delimiter").character()), SplitBehavior::removed, false);
  if (type == "FixedLength") return fixed_length_from_json(json);
  if (type == "UnicodeScripts") return split_by(script_runs(), SplitBehavior::removed, true);
  json.fail_unsupported_type(
      "Sequence, Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, "
      "BertPreTokenizer, CharDelimiterSplit, FixedLength or UnicodeScripts");
}

}  // namespace

PreTokenizer PreTokenizer::bert() {
  return PreTokenizer(
      {split_by(R"(\s)", SplitBehavior::removed), split_by(kPunctuation, SplitBehavior::isolated)});
}

PreTokenizer PreTokenizer::from_json(const JsonNode& json) {
  PreTokenizer pre_tokenizer;
  for_each_in_sequence(json, "pretokenizers", [&](const JsonNode& part) {
    const std::vector<PreTokenizerPart> parts =
        part.type() == "BertPreTokenizer" ? bert().parts_ : std::vector{part_from_json(part)};
    pre_tokenizer.parts_.insert(pre_tokenizer.parts_.end(), parts.begin(), parts.end());
  });
  return pre_tokenizer;
}

void PreTokenizer::operator()(PreTokens& tokens) const {
  for (const PreTokenizerPart& part : parts_) std::visit([&](const auto& step) { step(tokens); }, part);
}

}  // namespace tp
