#include "model/tokenizer/tokenizer_config.h"

#include "model/tokenizer/vocabulary.h"
#include "model/weights/checkpoint/json_node.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

namespace fs = std::filesystem;

// The new tokens replace those that have the same ids.
void add_tokens(std::vector<AddedToken> added, TokenizerParts& parts) {
  std::vector<AddedToken> all = parts.added.all();
  for (AddedToken& token : added) {
    const auto known =
        std::find_if(all.begin(), all.end(), [&](const AddedToken& other) { return other.id == token.id; });
    if (known != all.end())
      *known = std::move(token);
    else
      all.push_back(std::move(token));
  }
  parts.added = AddedTokens(std::move(all), parts.normalizer);
}

// "added_tokens_decoder": {"32000": {"content": "<|im_end|>", ...}, ...}
void read_added_tokens(const JsonNode& json, TokenizerParts& parts) {
  const std::optional<JsonNode> list = json.find("added_tokens_decoder");
  if (!list) return;
  std::vector<AddedToken> added;
  list->for_each_member([&](const std::string& key, const nlohmann::json&) {
    TokenId id = -1;
    const char* const end = key.data() + key.size();
    const auto [parsed, error] = std::from_chars(key.data(), end, id);
    if (error != std::errc() || parsed != end || id < 0 || id >= kMaxVocabularySize)
      list->fail(fmt::format("'{}'", key), fmt::format("token ids from 0 to {}", kMaxVocabularySize - 1));
    const JsonNode member = list->at(key);
    AddedToken token = added_token_from_json(member, id);
    const std::optional<TokenId> known = parts.find(token.content);
    if (known && known != id)
      member.fail(fmt::format("'{}' with id {}", token.content, id),
                  fmt::format("id {}, as in the vocabulary", *known));
    const std::optional<std::string_view> text = parts.vocabulary().text_of(id);
    if (text && text != token.content)
      member.fail(fmt::format("'{}' with id {}", token.content, id),
                  fmt::format("'{}', as in the vocabulary", *text));
    added.push_back(std::move(token));
  });
  add_tokens(std::move(added), parts);
}

// A token that the configuration names is a control token, wherever it comes from. Whether decoding leaves it
// out is for its own flag to say, if it has one.
void make_special(const JsonNode& json, TokenizerParts& parts) {
  const std::string text = text_of_token(json);
  if (const std::optional<TokenId> known = parts.added.find(text)) {
    AddedToken token = *parts.added.by_id(*known);
    if (token.is_control()) return;
    token.named_special = true;
    return add_tokens({std::move(token)}, parts);
  }
  const std::optional<TokenId> id = parts.vocabulary().find(text);
  if (!id || text.empty()) return;
  AddedToken token{.id = *id,
                   .content = text,
                   .special = true,
                   .lstrip = false,
                   .rstrip = false,
                   .single_word = false,
                   .normalized = false};
  if (!json.is_string()) {
    token.lstrip = json.boolean_or("lstrip", false);
    token.rstrip = json.boolean_or("rstrip", false);
  }
  add_tokens({std::move(token)}, parts);
}

void read_special_tokens(const JsonNode& json, TokenizerParts& parts) {
  for (const char* key :
       {"bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "sep_token", "mask_token"}) {
    if (const auto token = json.find(key)) make_special(*token, parts);
  }
  if (const auto more = json.find("additional_special_tokens")) {
    for (const JsonNode& token : more->elements()) make_special(token, parts);
  }
  if (const auto bos = json.find("bos_token")) parts.bos = parts.find(text_of_token(*bos));
  if (const auto eos = json.find("eos_token")) parts.eos = parts.find(text_of_token(*eos));
}

// The tokenizer classes of Llama and Gemma put BOS and EOS around a text as their flags say, whatever the
// post-processor does. Checkpoints (DeepSeek) rely on it.
void apply_bos_and_eos_flags(const JsonNode& json, TokenizerParts& parts) {
  const std::optional<JsonNode> type = json.find("tokenizer_class");
  if (!type) return;
  const std::string& name = type->string();
  if (!name.starts_with("LlamaTokenizer") && !name.starts_with("GemmaTokenizer")) return;
  const std::optional<JsonNode> add_bos = json.find("add_bos_token");
  const std::optional<JsonNode> add_eos = json.find("add_eos_token");
  if (add_bos && parts.bos)
    parts.post_processor.before = add_bos->boolean() ? std::vector{*parts.bos} : std::vector<TokenId>{};
  if (add_eos && parts.eos)
    parts.post_processor.after = add_eos->boolean() ? std::vector{*parts.eos} : std::vector<TokenId>{};
}

}  // namespace

std::string text_of_token(const JsonNode& token) {
  return token.is_string() ? token.string() : token.at("content").string();
}

void apply_tokenizer_config(const fs::path& folder, TokenizerParts& parts) {
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const fs::path file = folder / name;
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    const nlohmann::json document = read_json_file(file);
    const JsonNode json(document, file);
    read_added_tokens(json, parts);
    read_special_tokens(json, parts);
    apply_bos_and_eos_flags(json, parts);
    const std::optional<JsonNode> chat = json.find("chat_template");
    if (chat && chat->is_string()) parts.chat_template = chat->string();
  }
}

}  // namespace tp
