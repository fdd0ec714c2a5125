#include "model/tokenizer/tokenizer_config.h"

#include "model/tokenizer/vocabulary.h"
#include "model/weights/checkpoint/has_file.h"
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

// A token and its id must not contradict the vocabulary. `place` is where they are.
void require_consistent(const JsonNode& place, const std::string& content, TokenId id,
                        const TokenizerParts& parts) {
  const std::string found = fmt::format("'{}' with id {}", content, id);
  const std::optional<TokenId> known = parts.find(content);
  if (known && known != id) place.fail(found, fmt::format("id {}, as in the vocabulary", *known));
  const std::optional<std::string_view> text = parts.vocabulary().text_of(id);
  if (text && text != content) place.fail(found, fmt::format("'{}', as in the vocabulary", *text));
}

// added_tokens.json, {"<|im_end|>": 32000, ...}: older than added_tokens_decoder, and overridden by it. A
// token that the tokenizer has already stays as it is. Returns the ids of the others.
std::vector<TokenId> read_added_tokens_file(const fs::path& file, TokenizerParts& parts) {
  std::vector<TokenId> ids;
  if (!has_file(file)) return ids;
  const nlohmann::json document = read_json_file(file);
  const JsonNode json(document, file);
  std::vector<AddedToken> added;
  json.for_each_member([&](const std::string& content, const nlohmann::json&) {
    const auto id = static_cast<TokenId>(json.at(content).integer_below(kMaxVocabularySize));
    if (parts.added.find(content)) return;
    require_consistent(json.at(content), content, id, parts);
    added.push_back({.id = id,
                     .content = content,
                     .special = false,
                     .lstrip = false,
                     .rstrip = false,
                     .single_word = false,
                     .normalized = true});
  });
  for (const AddedToken& token : added) ids.push_back(token.id);
  add_tokens(std::move(added), parts);
  return ids;
}

bool has_added_tokens_decoder(const fs::path& file) {
  if (!has_file(file)) return false;
  const nlohmann::json document = read_json_file(file);
  return JsonNode(document, file).has("added_tokens_decoder");
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
    require_consistent(member, token.content, id, parts);
    added.push_back(std::move(token));
  });
  add_tokens(std::move(added), parts);
}

// Decoding leaves out the tokens that the configuration names, unless they have flags of their own.
void flag_named_tokens(const std::vector<TokenId>& ids, TokenizerParts& parts) {
  std::vector<AddedToken> named;
  for (const TokenId id : ids) {
    AddedToken token = *parts.added.by_id(id);
    token.special = token.named_special;
    if (token.special) named.push_back(std::move(token));
  }
  add_tokens(std::move(named), parts);
}

// A token that the configuration names is a control token, wherever it comes from. Whether decoding leaves it
// out is for its own flag to say, if it has one.
void make_special(const JsonNode& json, TokenizerParts& parts) {
  const std::string text = text_of_token(json);
  if (const std::optional<TokenId> known = parts.added.find(text)) {
    AddedToken token = *parts.added.by_id(*known);
    if (token.special || token.named_special) return;
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
  std::vector<TokenId> without_flags;
  if (!has_added_tokens_decoder(folder / "tokenizer_config.json"))
    without_flags = read_added_tokens_file(folder / "added_tokens.json", parts);
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const fs::path file = folder / name;
    if (!has_file(file)) continue;
    const nlohmann::json document = read_json_file(file);
    const JsonNode json(document, file);
    read_added_tokens(json, parts);
    read_special_tokens(json, parts);
    apply_bos_and_eos_flags(json, parts);
    const std::optional<JsonNode> chat = json.find("chat_template");
    if (chat && chat->is_string()) parts.chat_template = chat->string();
  }
  flag_named_tokens(without_flags, parts);
}

}  // namespace tp
