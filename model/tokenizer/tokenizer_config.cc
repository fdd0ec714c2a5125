#include "model/tokenizer/tokenizer_config.h"

#include "model/files/has_file.h"
#include "model/files/json_node.h"
#include "model/files/parse_number.h"
#include "model/tokenizer/text/vocabulary.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

namespace fs = std::filesystem;

// Facts from the lists of a folder about its added tokens.
struct Lists {
  std::unordered_set<std::string> without_flags{};   // in added_tokens.json
  std::unordered_set<std::string> with_own_flags{};  // in added_tokens_decoder
};

void set_added(std::vector<AddedToken> tokens, TokenizerParts& parts) {
  if (!parts.normalizes_added) {
    for (AddedToken& token : tokens) token.normalized = false;
  }
  parts.added = AddedTokens(std::move(tokens), parts.normalizer);
}

struct PlacedToken {
  JsonNode place;
  AddedToken token;
};

// Adds tokens in the order of their ids.
void add_tokens(std::vector<PlacedToken> tokens, TokenizerParts& parts) {
  const auto id_of = [](const PlacedToken& placed) { return placed.token.id; };
  std::ranges::stable_sort(tokens, {}, id_of);
  const auto twice = std::ranges::adjacent_find(tokens, {}, id_of);
  if (twice != tokens.end()) {
    std::next(twice)->place.fail(fmt::format("id {} a second time", twice->token.id),
                                 "a different id for every token");
  }
  AddedTokenList list(parts.vocabulary(), parts.added.all());
  for (PlacedToken& placed : tokens) list.add(placed.place, std::move(placed.token));
  set_added(list.take(), parts);
}

// Reads added_tokens.json, {"<|im_end|>": 32000, ...}. It is older than added_tokens_decoder, which overrides
// it. Tokens that the tokenizer already has stay unchanged.
void read_added_tokens_file(const fs::path& file, TokenizerParts& parts, Lists& lists) {
  if (!has_file(file)) return;
  const nlohmann::json document = read_json_file(file);
  const JsonNode json(document, file);
  std::vector<PlacedToken> tokens;
  json.for_each_member([&](const std::string& content, const nlohmann::json&) {
    const JsonNode place = json.at(content);
    const auto id = static_cast<TokenId>(place.integer_below(kMaxVocabularySize));
    if (!parts.added.find(content))
      tokens.push_back({place, {.id = id, .content = content, .normalized = true}});
  });
  add_tokens(tokens, parts);
  for (const PlacedToken& placed : tokens) lists.without_flags.insert(placed.token.content);
}

// Returns the contents of "added_tokens_decoder", or nullopt if the file has no such list.
std::optional<std::unordered_set<std::string>> contents_of_decoder(const fs::path& file) {
  if (!has_file(file)) return std::nullopt;
  const nlohmann::json document = read_json_file(file);
  const std::optional<JsonNode> list = JsonNode(document, file).find("added_tokens_decoder");
  if (!list) return std::nullopt;
  std::unordered_set<std::string> contents;
  list->for_each_member([&](const std::string& key, const nlohmann::json&) {
    contents.insert(list->at(key).at("content").string());
  });
  return contents;
}

// Reads "added_tokens_decoder": {"32000": {"content": "<|im_end|>", ...}, ...}.
void read_added_tokens(const JsonNode& json, TokenizerParts& parts) {
  const std::optional<JsonNode> list = json.find("added_tokens_decoder");
  if (!list) return;
  std::vector<PlacedToken> tokens;
  list->for_each_member([&](const std::string& key, const nlohmann::json&) {
    const TokenId id = parse_number<TokenId>(key).value_or(-1);
    if (id < 0 || id >= kMaxVocabularySize)
      list->fail(fmt::format("'{}'", key), fmt::format("token ids from 0 to {}", kMaxVocabularySize - 1));
    const JsonNode member = list->at(key);
    tokens.push_back({member, added_token_from_json(member, id)});
  });
  add_tokens(std::move(tokens), parts);
}

// Returns a token that the configuration names, as a control token; nullopt if there is no such token. The
// token's own flag, if it has one, decides whether decoding omits it. If it has none, decoding omits it, and
// it is not normalized, as in transformers.
std::optional<AddedToken> named_token(const JsonNode& json, const TokenizerParts& parts, const Lists& lists) {
  const std::string text = text_of_token(json);
  const std::optional<TokenId> id = parts.find(text);
  if (!id || text.empty()) return std::nullopt;
  const AddedToken* const known = parts.added.find(text) ? parts.added.by_id(*id) : nullptr;
  AddedToken token = known ? *known : AddedToken{.id = *id, .content = text, .special = true};
  if (!token.special && lists.without_flags.contains(text)) {
    token.special = true;
    token.normalized = false;
  }
  token.named_special = !token.special;
  if (!json.is_string() && !lists.with_own_flags.contains(text)) read_flags(json, token);
  return token;
}

// The tokens that the configuration names: a token per key, and lists.
std::vector<JsonNode> named_nodes(const JsonNode& json) {
  std::vector<JsonNode> nodes;
  for (const char* key :
       {"bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "sep_token", "mask_token"}) {
    if (const auto token = json.find(key)) nodes.push_back(*token);
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto more = json.find(key);
    if (!more) continue;
    if (more->is_array()) {
      for (const JsonNode& token : more->elements()) nodes.push_back(token);
    } else {
      more->for_each_member([&](const std::string& name, const nlohmann::json&) {
        if (const auto token = more->find(name)) nodes.push_back(*token);
      });
    }
  }
  return nodes;
}

void read_special_tokens(const JsonNode& json, const Lists& lists, TokenizerParts& parts) {
  std::vector<AddedToken> all = parts.added.all();
  std::unordered_map<TokenId, std::size_t> place_of;
  for (std::size_t i = 0; i < all.size(); ++i) place_of.emplace(all[i].id, i);
  std::unordered_set<TokenId> named;
  for (const JsonNode& node : named_nodes(json)) {
    std::optional<AddedToken> token = named_token(node, parts, lists);
    if (!token || !named.insert(token->id).second) continue;
    const auto known = place_of.find(token->id);
    if (known == place_of.end())
      all.push_back(std::move(*token));
    else
      all[known->second] = std::move(*token);
  }
  if (!named.empty()) set_added(std::move(all), parts);
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
  Lists lists;
  if (auto contents = contents_of_decoder(folder / "tokenizer_config.json"))
    lists.with_own_flags = std::move(*contents);
  else
    read_added_tokens_file(folder / "added_tokens.json", parts, lists);
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const fs::path file = folder / name;
    if (!has_file(file)) continue;
    const nlohmann::json document = read_json_file(file);
    const JsonNode json(document, file);
    read_added_tokens(json, parts);
    read_special_tokens(json, lists, parts);
    apply_bos_and_eos_flags(json, parts);
  }
}

}  // namespace tp
