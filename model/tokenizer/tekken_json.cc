#include "model/tokenizer/tekken_json.h"

#include "model/files/split_text.h"
#include "model/tokenizer/models/scored_merges.h"
#include "model/tokenizer/steps/byte_level.h"
#include "model/tokenizer/text/base64.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// The control tokens of files without a list of them.
constexpr const char* kFirstControlTokens =
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] "
    "[TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] "
    "[/SYSTEM_PROMPT] [TOOL_CONTENT]";

// Indexed by id. Missing names are filled in like in Mistral's library.
std::vector<std::string> control_tokens(const JsonNode& json, std::size_t count) {
  std::vector<std::string> names(count);
  if (const std::optional<JsonNode> list = json.find("special_tokens")) {
    for (const JsonNode& token : list->elements()) {
      const JsonNode rank = token.at("rank");
      names[static_cast<std::size_t>(rank.integer_below(static_cast<std::int64_t>(count)))] =
          token.at("token_str").string();
    }
  } else {
    const std::vector<std::string_view> first = split_text(kFirstControlTokens);
    std::copy_n(first.begin(), std::min(count, first.size()), names.begin());
  }
  for (std::size_t id = 0; id < count; ++id)
    if (names[id].empty()) names[id] = fmt::format("<SPECIAL_{}>", id);
  return names;
}

// Tokens in the byte-level alphabet, indexed by rank.
std::vector<std::string> ranked_tokens(const JsonNode& json, std::size_t count) {
  const JsonNode vocab = json.at("vocab");
  if (!vocab.is_array()) vocab.fail_type("a list");
  const nlohmann::json& list = vocab.value();
  if (list.size() < count)
    vocab.fail(fmt::format("{} tokens", list.size()), fmt::format("{}, as config says", count));
  std::vector<std::string> tokens(count);
  for (const JsonNode& token : vocab.elements()) {
    const auto rank = static_cast<std::size_t>(token.at("rank").integer_below(kMaxVocabularySize));
    if (rank >= count) continue;  // the file may contain more tokens than the model
    const JsonNode text = token.at("token_bytes");
    const std::optional<std::string> bytes = decoded_base64(text.string());
    if (!bytes || bytes->empty()) text.fail_type("the bytes of a token in base64");
    if (!tokens[rank].empty()) token.fail(fmt::format("rank {} a second time", rank), "a different one");
    byte_level::append_encoded(tokens[rank], *bytes);
  }
  for (std::size_t rank = 0; rank < count; ++rank)
    if (tokens[rank].empty()) vocab.fail(fmt::format("no token of rank {}", rank), "one");
  return tokens;
}

AddedTokens added_tokens_of(const std::vector<std::string>& control) {
  std::vector<AddedToken> added;
  for (const std::string& name : control) {
    added.push_back({.id = static_cast<TokenId>(added.size()), .content = name, .special = true});
  }
  return AddedTokens(std::move(added));
}

PreTokenizer pre_tokenizer_of(const JsonNode& pattern) {
  try {
    return PreTokenizer({Split(Regex::from_oniguruma(pattern.string()), SplitBehavior::isolated, false),
                         ByteLevelSplit(false, false)});
  } catch (const RegexError& error) {
    pattern.fail(error.what(), "a regular expression that PCRE2 can run", "use a model with another pattern");
  }
}

}  // namespace

TokenizerParts parts_from_tekken(const JsonNode& json) {
  const JsonNode config = json.at("config");
  const std::int64_t size = config.at("default_vocab_size").integer_below(kMaxVocabularySize);
  const std::int64_t control_count = config.at("default_num_special_tokens").integer_below(size);
  const auto control = control_tokens(json, static_cast<std::size_t>(control_count));
  const auto ranked = ranked_tokens(json, static_cast<std::size_t>(size - control_count));
  TokenizerParts parts{.model = bpe_of_ranks(ranked, control.size())};
  parts.pre_tokenizer = pre_tokenizer_of(config.at("pattern"));
  parts.added = added_tokens_of(control);
  parts.decoder = TokenDecoder::byte_level();
  parts.bos = parts.added.find("<s>");
  parts.eos = parts.added.find("</s>");
  if (parts.bos) parts.post_processor.before = {*parts.bos};
  return parts;
}

}  // namespace tp
