#include "model/tokenizer/named_pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/ranges.h>

namespace tp {
namespace {

struct Family {
  std::vector<std::string_view> names;
  std::vector<std::string_view> patterns;  // each cuts the pieces of the one before
  bool composes = false;
  bool ignore_merges = false;
};

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Letters with case, except Georgian's small and mathematics' styled ones: the pattern was made from older
// tables.
constexpr std::string_view kDeepSeekWord = R"(\s?(?:(?![ა-ჿ𝐀-𝟿])[\p{Lu}\p{Ll}\p{Lt}])+)";
// The end of the patterns of DeepSeek's later models.
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {{"gpt-2", "phi-2", "mpt", "olmo", "jais"}, {kGpt2Pattern}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3"}, {kLlama3}, false, true},
      {{"dbrx", "smaug-bpe"}, {kLlama3}},
      {{"qwen2", "deepseek-r1-qwen"}, {kQwen2}, true, false},
      {{"starcoder", "smollm", "refact", "command-r", "codeshell"}, {R"(\p{N})", kGpt2Pattern}},
      {{"falcon"}, {R"([\p{P}$+<=>^~|`]+)", kGpt2Pattern, "[0-9][0-9][0-9]"}},
      {{"deepseek-llm"},
       {R"([\r\n])", kDeepSeekWord, R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)",
        "[一-龥ࠀ-一가-퟿]+", R"(\p{N}+)"}},
      {{"deepseek-coder"},
       {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-퟿]+", R"(\p{N})"}},
      {{"deepseek-v3"}, {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", kDeepSeek3}},
      {{"tekken"}, {kTekken}, false, true},
  };
  return all;
}

}  // namespace

std::optional<NamedPreTokenizer> named_pre_tokenizer(std::string_view name) {
  for (const Family& family : families()) {
    if (std::find(family.names.begin(), family.names.end(), name) == family.names.end()) continue;
    std::vector<PreTokenizerPart> parts;
    for (const std::string_view pattern : family.patterns)
      parts.emplace_back(Split(Regex::from_oniguruma(pattern), SplitBehavior::isolated, false));
    parts.emplace_back(ByteLevelSplit(false, false));
    return NamedPreTokenizer{PreTokenizer(std::move(parts)), family.composes, family.ignore_merges};
  }
  return std::nullopt;
}

std::string names_of_pre_tokenizers() {
  std::vector<std::string_view> names;
  for (const Family& family : families()) names.insert(names.end(), family.names.begin(), family.names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string_view> distinct_pre_tokenizers() {
  std::vector<std::string_view> names;
  for (const Family& family : families()) names.push_back(family.names.front());
  return names;
}

}  // namespace tp
