#include "model/tokenizer/tokenizer_config.h"

#include "model/tokenizer/json_node.h"

namespace tp {
namespace {

namespace fs = std::filesystem;

// A token's text, which is given as a string or as the member "content" of an object.
std::optional<std::string> token_text(const JsonNode& json, std::string_view key) {
  const std::optional<JsonNode> token = json.find(key);
  if (!token) return std::nullopt;
  return token->is_string() ? token->string() : token->at("content").string();
}

void read_special_tokens(const JsonNode& json, TokenizerParts& parts) {
  if (const auto bos = token_text(json, "bos_token")) parts.bos = parts.find(*bos);
  if (const auto eos = token_text(json, "eos_token")) parts.eos = parts.find(*eos);
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

void apply_tokenizer_config(const fs::path& folder, TokenizerParts& parts) {
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const fs::path file = folder / name;
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    const nlohmann::json document = read_json_file(file);
    const JsonNode json(document, file);
    read_special_tokens(json, parts);
    apply_bos_and_eos_flags(json, parts);
    const std::optional<JsonNode> chat = json.find("chat_template");
    if (chat && chat->is_string()) parts.chat_template = chat->string();
  }
}

}  // namespace tp
