#include "model/tokenizer/tokenizer_config.h"

#include "model/files/has_file.h"
#include "model/files/json_node.h"
#include "model/files/parse_number.h"
#include "model/files/printable.h"
#include "model/tokenizer/text/vocabulary.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

namespace fs = std::filesystem;

// Adds tokens with unique ids. They replace existing tokens with equal ids.
void add_tokens(std::vector<AddedToken> added, TokenizerParts& parts) {
  if (added.empty()) return;
  std::vector<AddedToken> all = parts.added.all();
  std::unordered_map<TokenId, std::size_t> place_of;
  for (std::size_t i = 0; i < all.size(); ++i) place_of.emplace(all[i].id, i);
  for (AddedToken& token : added) {
    const auto known = place_of.find(token.id);
    if (known != place_of.end())
      all[known->second] = std::move(token);
    else
      all.push_back(std::move(token));
  }
  parts.added = AddedTokens(std::move(all), parts.normalizer);
}

// Adds a token to the list. Fails if the token contradicts the vocabulary. `place`: the position of the token
// and its id in the file.
void add_consistent(const JsonNode& place, AddedToken token, const TokenizerParts& parts,
                    AddedTokenList& added) {
  const std::string found = fmt::format("'{}' with id {}", printable(token.content), token.id);
  const std::optional<TokenId> known = parts.find(token.content);
  if (known && known != token.id) place.fail(found, fmt::format("id {}, as in the vocabulary", *known));
  const std::optional<std::string_view> text = parts.vocabulary().text_of(token.id);
  if (text && text != token.content) place.fail(found, fmt::format("'{}', as in the vocabulary", *text));
  added.add(place, std::move(token));
}

// Reads added_tokens.json, {"<|im_end|>": 32000, ...}. It is older than added_tokens_decoder, which overrides
// it. Tokens that the tokenizer already has stay unchanged. Returns the ids of the added tokens.
std::vector<TokenId> read_added_tokens_file(const fs::path& file, TokenizerParts& parts) {
  if (!has_file(file)) return {};
  const nlohmann::json document = read_json_file(file);
  const JsonNode json(document, file);
  AddedTokenList list;
  json.for_each_member([&](const std::string& content, const nlohmann::json&) {
    const auto id = static_cast<TokenId>(json.at(content).integer_below(kMaxVocabularySize));
    if (parts.added.find(content)) return;
    add_consistent(json.at(content), {.id = id, .content = content, .normalized = true}, parts, list);
  });
  std::vector<AddedToken> added = list.take();
  std::vector<TokenId> ids;
  for (const AddedToken& token : added) ids.push_back(token.id);
  add_tokens(std::move(added), parts);
  return ids;
}

bool has_added_tokens_decoder(const fs::path& file) {
  if (!has_file(file)) return false;
  const nlohmann::json document = read_json_file(file);
  return JsonNode(document, file).has("added_tokens_decoder");
}

// Reads "added_tokens_decoder": {"32000": {"content": "<|im_end|>", ...}, ...}.
void read_added_tokens(const JsonNode& json, TokenizerParts& parts) {
  const std::optional<JsonNode> list = json.find("added_tokens_decoder");
  if (!list) return;
  AddedTokenList added;
  list->for_each_member([&](const std::string& key, const nlohmann::json&) {
    const TokenId id = parse_number<TokenId>(key).value_or(-1);
    if (id < 0 || id >= kMaxVocabularySize)
      list->fail(fmt::format("'{}'", key), fmt::format("token ids from 0 to {}", kMaxVocabularySize - 1));
    const JsonNode member = list->at(key);
    add_consistent(member, added_token_from_json(member, id), parts, added);
  });
  add_tokens(added.take(), parts);
}

// Makes decoding omit the tokens that the configuration names, unless they have their own flags. As in
// transformers, these tokens are not normalized.
void flag_named_tokens(const std::vector<TokenId>& ids, TokenizerParts& parts) {
  std::vector<AddedToken> named;
  for (const TokenId id : ids) {
    AddedToken token = *parts.added.by_id(id);
    token.special = token.named_special;
    token.normalized = !token.special;
    if (token.special) named.push_back(std::move(token));
  }
  add_tokens(std::move(named), parts);
}

// Makes a token that the configuration names a control token. The token's own flag, if it has one, decides
// whether decoding omits it. Returns the changed token, or nullopt if it does not change.
std::optional<AddedToken> named_token(const JsonNode& json, const TokenizerParts& parts) {
  const std::string text = text_of_token(json);
  if (const std::optional<TokenId> known = parts.added.find(text)) {
    AddedToken token = *parts.added.by_id(*known);
    if (token.special || token.named_special) return std::nullopt;
    token.named_special = true;
    return token;
  }
  const std::optional<TokenId> id = parts.vocabulary().find(text);
  if (!id || text.empty()) return std::nullopt;
  AddedToken token{.id = *id, .content = text, .special = true};
  if (!json.is_string()) {
    token.lstrip = json.boolean_or("lstrip", false);
    token.rstrip = json.boolean_or("rstrip", false);
  }
  return token;
}

void read_special_tokens(const JsonNode& json, TokenizerParts& parts) {
  std::vector<AddedToken> named;
  std::unordered_set<TokenId> ids;
  const auto name_token = [&](const JsonNode& node) {
    std::optional<AddedToken> token = named_token(node, parts);
    if (token && ids.insert(token->id).second) named.push_back(std::move(*token));
  };
  for (const char* key :
       {"bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "sep_token", "mask_token"}) {
    if (const auto token = json.find(key)) name_token(*token);
  }
  if (const auto more = json.find("additional_special_tokens")) {
    for (const JsonNode& token : more->elements()) name_token(token);
  }
  add_tokens(std::move(named), parts);
  if (const auto bos = json.find("bos_token")) parts.bos = parts.find(text_of_token(*bos));
  if (const auto eos = json.find("eos_token")) parts.eos = parts.find(text_of_token(*eos));
}

// The tokenizer classes of Llama and Gemma add BOS and EOS according to their flags, regardless of the
// post-processor. Checkpoints (DeepSeek) rely on this.
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
