#include "model/tokenizer/tokenizer.h"

#include "model/tokenizer/bpe_json.h"
#include "model/tokenizer/utf8.h"
#include "tp/error.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

// Positions in a text are 32-bit numbers, and normalizers make texts longer.
constexpr std::size_t max_text_size = 1 << 30;

fs::path tokenizer_file(const fs::path& path) {
  std::error_code ignored;  // a path that cannot be looked at fails when it is opened, with the reason
  if (!fs::is_directory(path, ignored)) return path;
  const fs::path file = path / "tokenizer.json";
  require<CheckpointError>(
      fs::exists(file, ignored),
      "{}: cannot load a tokenizer: expected a file tokenizer.json in this folder, found none; "
      "save the tokenizer in the format of the `tokenizers` library (SentencePiece's "
      "tokenizer.model alone is not supported yet)",
      path.string());
  return file;
}

TokenModel model_from_json(const JsonNode& json) {
  // Files of the library's first versions do not name the type; only BPE has merges.
  const std::optional<JsonNode> type = json.find("type");
  if (type ? type->string() == "BPE" : json.find("merges").has_value()) return bpe_from_json(json);
  json.fail_unsupported_type("BPE");
}

// A token's text, which is given as a string or as the member "content" of an object.
std::optional<std::string> token_text(const JsonNode& json, std::string_view key) {
  const std::optional<JsonNode> token = json.find(key);
  if (!token) return std::nullopt;
  return token->is_string() ? token->string() : token->at("content").string();
}

}  // namespace

Tokenizer Tokenizer::load(const fs::path& path) {
  const fs::path file = tokenizer_file(path);
  const nlohmann::json document = read_json_file(file);
  Tokenizer tokenizer(JsonNode(document, file));
  tokenizer.read_config(file.parent_path());
  return tokenizer;
}

Tokenizer::Tokenizer(const JsonNode& json) : model_(model_from_json(json.at("model"))) {
  if (const auto part = json.find("normalizer")) normalizer_ = Normalizer::from_json(*part);
  if (const auto part = json.find("pre_tokenizer")) pre_tokenizer_ = PreTokenizer::from_json(*part);
  if (const auto part = json.find("decoder")) decoder_ = TokenDecoder::from_json(*part);
  vocab_size_ = model_vocabulary().size();
  if (const auto part = json.find("added_tokens")) {
    added_ = AddedTokens::from_json(*part, normalizer_);
    check_added_tokens(*part);
    for (const AddedToken& token : added_.all())
      vocab_size_ = std::max(vocab_size_, static_cast<std::size_t>(token.id) + 1);
  }
  if (const auto part = json.find("post_processor"))
    post_processor_ = post_processor_from_json(*part, [this](TokenId id) { return has_token(id); });
}

// The model's vocabulary and the added tokens must agree about what they both hold.
void Tokenizer::check_added_tokens(const JsonNode& json) const {
  for (const AddedToken& token : added_.all()) {
    const std::optional<TokenId> model_id = model_vocabulary().find(token.content);
    const std::optional<std::string_view> model_text = model_vocabulary().text_of(token.id);
    if ((model_id && model_id != token.id) || (model_text && model_text != token.content)) {
      json.fail(fmt::format("the token '{}' with id {}", token.content, token.id),
                model_id ? fmt::format("id {}, as in the vocabulary", *model_id)
                         : fmt::format("'{}' for this id, as in the vocabulary", *model_text));
    }
  }
}

const Vocabulary& Tokenizer::model_vocabulary() const {
  return std::visit([](const auto& model) -> const Vocabulary& { return model.vocabulary(); }, model_);
}

void Tokenizer::read_config(const fs::path& folder) {
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    const fs::path file = folder / name;
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    const nlohmann::json document = read_json_file(file);
    const JsonNode json(document, file);
    read_special_tokens(json);
    apply_bos_and_eos_flags(json);
    const std::optional<JsonNode> chat = json.find("chat_template");
    if (chat && chat->is_string()) chat_template_ = chat->string();
  }
}

void Tokenizer::read_special_tokens(const JsonNode& json) {
  if (const auto bos = token_text(json, "bos_token")) bos_id_ = token_to_id(*bos);
  if (const auto eos = token_text(json, "eos_token")) eos_id_ = token_to_id(*eos);
}

// The tokenizer classes of Llama and Gemma put BOS and EOS around a text as their flags say, whatever the
// post-processor does. Checkpoints (DeepSeek) rely on it.
void Tokenizer::apply_bos_and_eos_flags(const JsonNode& json) {
  const std::optional<JsonNode> type = json.find("tokenizer_class");
  if (!type) return;
  const std::string& name = type->string();
  if (!name.starts_with("LlamaTokenizer") && !name.starts_with("GemmaTokenizer")) return;
  const std::optional<JsonNode> add_bos = json.find("add_bos_token");
  const std::optional<JsonNode> add_eos = json.find("add_eos_token");
  if (add_bos && bos_id_)
    post_processor_.before = add_bos->boolean() ? std::vector{*bos_id_} : std::vector<TokenId>{};
  if (add_eos && eos_id_)
    post_processor_.after = add_eos->boolean() ? std::vector{*eos_id_} : std::vector<TokenId>{};
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, AddSpecial add_special) const {
  require<RequestError>(
      text.size() < max_text_size,
      "cannot encode a text of {} bytes: expected less than {}; split it into smaller parts", text.size(),
      max_text_size);
  std::string repaired;
  if (!utf8::is_valid(text)) {
    utf8::append_repaired(repaired, text);
    text = repaired;
  }
  std::vector<TokenId> ids;
  if (add_special == AddSpecial::yes) ids = post_processor_.before;
  for (const Fragment& fragment : added_.split_raw(text)) {
    if (fragment.token)
      ids.push_back(*fragment.token);
    else
      encode_fragment(text.substr(fragment.span.begin, fragment.span.end - fragment.span.begin),
                      fragment.span.begin == 0, ids);
  }
  if (add_special == AddSpecial::yes)
    ids.insert(ids.end(), post_processor_.after.begin(), post_processor_.after.end());
  return ids;
}

void Tokenizer::encode_fragment(std::string_view text, bool at_start, std::vector<TokenId>& out) const {
  const std::string normalized = normalizer_(std::string(text));
  for (const Fragment& fragment : added_.split_normalized(normalized)) {
    if (fragment.token)
      out.push_back(*fragment.token);
    else
      encode_plain(
          std::string_view(normalized).substr(fragment.span.begin, fragment.span.end - fragment.span.begin),
          at_start && fragment.span.begin == 0, out);
  }
}

void Tokenizer::encode_plain(std::string_view text, bool at_start, std::vector<TokenId>& out) const {
  PreTokens tokens(text, at_start);
  pre_tokenizer_(tokens);
  std::visit(
      [&](const auto& model) {
        for (const Span& piece : tokens.pieces) model.encode(tokens.view(piece), out);
      },
      model_);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, SkipSpecial skip_special) const {
  TokenDecoder decoder = decoder_;
  std::string text;
  for (const TokenId id : ids) push(id, skip_special, decoder, text);
  decoder.finish(text);
  return text;
}

void Tokenizer::push(TokenId id, SkipSpecial skip_special, TokenDecoder& decoder, std::string& out) const {
  const bool is_padding = id >= 0 && static_cast<std::size_t>(id) < padded_size_ && !has_token(id);
  if (is_padding || (skip_special == SkipSpecial::yes && is_special(id))) return;
  decoder.push(id_to_token(id), out);
}

std::optional<TokenId> Tokenizer::token_to_id(std::string_view token) const {
  const std::optional<TokenId> added = added_.find(token);
  return added ? added : model_vocabulary().find(token);
}

bool Tokenizer::has_token(TokenId id) const {
  return added_.by_id(id) != nullptr || model_vocabulary().text_of(id).has_value();
}

std::string_view Tokenizer::id_to_token(TokenId id) const {
  if (const AddedToken* token = added_.by_id(id)) return token->content;
  const std::optional<std::string_view> text = model_vocabulary().text_of(id);
  require<RequestError>(
      text.has_value(),
      "cannot decode token id {}: expected the id of a token, of which the largest is {}; the ids "
      "may come from another model's tokenizer",
      id, static_cast<std::int64_t>(vocab_size_) - 1);
  return *text;
}

bool Tokenizer::is_special(TokenId id) const {
  const AddedToken* token = added_.by_id(id);
  return token != nullptr && token->special;
}

}  // namespace tp
