#include "model/tokenizer/gguf_vocabulary.h"

#include "model/files/printable.h"
#include "model/tokenizer/rwkv_vocabulary.h"
#include "model/tokenizer/steps/byte_level.h"
#include "model/tokenizer/steps/named_pre_tokenizer.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <limits>

#include <fmt/format.h>

namespace tp {
namespace {

using Scheme = EmbeddedVocabulary::Scheme;

constexpr std::string_view kToolTemplate = "tokenizer.chat_template.tool_use";  // gguf-py's name

std::string_view model_of(const GgufMetadata& metadata) {
  const std::string_view model = metadata.text_or("tokenizer.ggml.model", "none");
  return model == "no_vocab" ? "none" : model;
}

// Old files contain no name. Gemma 4 has its own model instead.
std::string_view pre_tokenizer_of(const GgufMetadata& metadata) {
  return model_of(metadata) == "gemma4" ? "gemma4" : metadata.text_or("tokenizer.ggml.pre", "default");
}

std::vector<std::string> strings(const GgufMetadata& metadata, std::string_view key) {
  const std::vector<std::string_view> texts = metadata.texts(key);
  return {texts.begin(), texts.end()};
}

std::vector<TokenType> types_of(const GgufMetadata& metadata) {
  if (!metadata.has("tokenizer.ggml.token_type")) return {};
  std::vector<TokenType> types;
  for (const double number : metadata.numbers("tokenizer.ggml.token_type")) {
    if (!(number >= 1 && number <= 6)) {
      throw_error<CheckpointError>(
          "{}: a token has type {}, expected 1 to 6; the file is damaged, download it again",
          metadata.where(), number);
    }
    types.push_back(static_cast<TokenType>(number));
  }
  return types;
}

bool is_token(double id, std::size_t tokens) { return id >= 0 && id < static_cast<double>(tokens); }

// Ids without a token count as absent: see unknown_token_ids.
std::optional<TokenId> id_of(const GgufMetadata& metadata, std::string_view key, std::size_t tokens) {
  if (!metadata.has(key) || !is_token(metadata.number(key), tokens)) return std::nullopt;
  return static_cast<TokenId>(metadata.whole(key));
}

// Models of tokenizers other than "gpt2" and "gemma4".
std::optional<Scheme> scheme_of(std::string_view model) {
  if (model == "llama") return Scheme::sentencepiece_bpe;
  if (model == "t5") return Scheme::unigram;
  if (model == "bert") return Scheme::word_piece;
  if (model == "rwkv") return Scheme::longest_match;
  return std::nullopt;
}

// Changes tokens from escaped bytes to the byte-level alphabet. Tokens of other types are texts.
void unescape_tokens(const GgufMetadata& metadata, EmbeddedVocabulary& vocabulary) {
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (id < vocabulary.types.size() && vocabulary.types[id] != TokenType::normal) continue;
    std::string& token = vocabulary.tokens[id];
    const std::optional<std::string> bytes = bytes_of_escaped(token);
    require<CheckpointError>(bytes.has_value(),
                             "{}: token {} is \"{}\", expected bytes as Python writes them; the file is "
                             "damaged, download it again",
                             metadata.where(), id, printable(token));
    token.clear();
    byte_level::append_encoded(token, *bytes);
  }
}

std::string escaped_token(const EmbeddedVocabulary& vocabulary, std::size_t id) {
  if (vocabulary.types[id] != TokenType::normal) return vocabulary.tokens[id];
  std::string bytes;
  byte_level::append_decoded(bytes, vocabulary.tokens[id]);
  return escaped_bytes(bytes);
}

// The bytes of SentencePiece's table of characters.
std::string character_map_in(const GgufMetadata& metadata) {
  constexpr std::string_view kMap = "tokenizer.ggml.precompiled_charsmap";
  if (!metadata.has(kMap)) return {};
  std::string map;
  for (const double byte : metadata.numbers(kMap)) {
    require<CheckpointError>(
        byte >= -128 && byte <= 255,
        "{}: {} has the element {}, expected bytes; the file is damaged, download it again", metadata.where(),
        kMap, byte);
    map.push_back(static_cast<char>(static_cast<int>(byte) & 0xFF));
  }
  return map;
}

// BERT's tokens around a text are [CLS] and [SEP], which files may name in this way only.
void use_cls_and_sep(const GgufMetadata& metadata, EmbeddedVocabulary& vocabulary) {
  const std::size_t size = vocabulary.tokens.size();
  const auto cls = id_of(metadata, "tokenizer.ggml.cls_token_id", size);
  const auto sep = id_of(metadata, "tokenizer.ggml.seperator_token_id", size);  // the format's spelling
  if (vocabulary.scheme == Scheme::word_piece && cls) vocabulary.bos = cls;
  if (vocabulary.scheme == Scheme::word_piece && sep) vocabulary.eos = sep;
  if (!cls || !sep || !vocabulary.add_bos || !vocabulary.add_eos) return;
  const bool is_roberta = vocabulary.tokens[static_cast<std::size_t>(*cls)] == "<s>";
  vocabulary.pair_separators = is_roberta ? 2 : 1;
}

// Whether BOS precedes texts, for files without this flag.
bool adds_bos_by_default(Scheme scheme, std::string_view pre_tokenizer) {
  if (scheme == Scheme::sentencepiece_bpe || scheme == Scheme::word_piece) return true;
  const auto traits = pre_tokenizer_traits(pre_tokenizer);
  return traits && traits->adds_bos;
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

// The added tokens that satisfy a condition.
template <class Condition>
std::vector<TokenId> added_tokens_with(const EmbeddedVocabulary& vocabulary, Condition&& holds) {
  std::vector<TokenId> ids;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (is_added(vocabulary, id) && holds(vocabulary.tokens[id])) ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

}  // namespace

void infer_stripping(std::string_view model_name, std::string_view architecture,
                     EmbeddedVocabulary& vocabulary) {
  std::string name(model_name);
  std::ranges::transform(name, name.begin(), [](unsigned char byte) { return std::tolower(byte); });
  const auto tokens_with_text = [&](std::string_view text) {
    return added_tokens_with(vocabulary, [&](std::string_view token) { return token == text; });
  };
  if (contains_any(vocabulary.pre_tokenizer, {"jina-v2-de", "jina-v2-es", "jina-v2-code"}) ||
      contains_any(architecture, {"nomic-bert-moe", "jina-bert-v3"})) {
    vocabulary.strip_left = tokens_with_text("<mask>");
  } else if (contains_any(name, {"phi-3", "phi3"})) {
    vocabulary.strip_right = added_tokens_with(vocabulary, [](std::string_view token) {
      return token != "<unk>" && token != "<s>" && token != "<|endoftext|>";
    });
  } else if (contains_any(name, {"modern-bert"})) {
    vocabulary.strip_left = tokens_with_text("[MASK]");
  }
}

std::optional<std::string> unsupported_tokenizer(const GgufMetadata& metadata) {
  const std::string_view model = model_of(metadata);
  if (model == "none" || scheme_of(model)) return std::nullopt;
  if (model != "gpt2" && model != "gemma4") {
    return fmt::format("{}: tokenizer.ggml.model is \"{}\", expected gpt2, gemma4, llama, t5, bert or rwkv",
                       metadata.where(), printable(model));
  }
  const std::string_view name = pre_tokenizer_of(metadata);
  if (pre_tokenizer_traits(name)) return std::nullopt;
  return fmt::format("{}: {}", metadata.where(), unknown_pre_tokenizer(name));
}

std::vector<std::string> unknown_token_ids(const GgufMetadata& metadata) {
  constexpr std::string_view kPrefix = "tokenizer.ggml.";
  constexpr double kNone = std::numeric_limits<std::uint32_t>::max();  // -1 means no token
  std::vector<std::string> unknown;
  if (!metadata.has("tokenizer.ggml.tokens")) return unknown;
  const std::size_t tokens = metadata.texts("tokenizer.ggml.tokens").size();
  for (const auto& [key, value] : metadata.values()) {
    if (!key.starts_with(kPrefix) || !key.ends_with("_token_id")) continue;
    const double id = metadata.number(key);
    if (!is_token(id, tokens) && id != kNone && id != -1) unknown.push_back(fmt::format("{} {}", key, id));
  }
  return unknown;
}

std::optional<EmbeddedVocabulary> gguf_vocabulary(const GgufMetadata& metadata) {
  const std::string_view model = model_of(metadata);
  if (model == "none") return std::nullopt;
  if (const auto unsupported = unsupported_tokenizer(metadata))
    throw_error<CheckpointError>("{}; use the model's tokenizer.json", *unsupported);
  EmbeddedVocabulary vocabulary;
  vocabulary.scheme = scheme_of(model).value_or(Scheme::listed_merges);
  vocabulary.tokens = strings(metadata, "tokenizer.ggml.tokens");
  vocabulary.types = types_of(metadata);
  if (vocabulary.scheme == Scheme::sentencepiece_bpe || vocabulary.scheme == Scheme::unigram) {
    for (const double score : metadata.numbers("tokenizer.ggml.scores"))
      vocabulary.scores.push_back(static_cast<float>(score));
  } else if (vocabulary.scheme == Scheme::listed_merges) {
    vocabulary.merges = strings(metadata, "tokenizer.ggml.merges");
    vocabulary.ignores_lone_merge = true;
    vocabulary.pre_tokenizer = pre_tokenizer_of(metadata);
  }
  if (vocabulary.scheme == Scheme::longest_match) unescape_tokens(metadata, vocabulary);
  infer_stripping(metadata.text_or("general.name", ""), metadata.text_or("general.architecture", ""),
                  vocabulary);
  const std::size_t size = vocabulary.tokens.size();
  vocabulary.bos = id_of(metadata, "tokenizer.ggml.bos_token_id", size);
  vocabulary.eos = id_of(metadata, "tokenizer.ggml.eos_token_id", size);
  vocabulary.unknown = id_of(metadata, "tokenizer.ggml.unknown_token_id", size);
  vocabulary.add_space_prefix = metadata.boolean_or("tokenizer.ggml.add_space_prefix", true);
  vocabulary.add_bos = metadata.boolean_or("tokenizer.ggml.add_bos_token",
                                           adds_bos_by_default(vocabulary.scheme, vocabulary.pre_tokenizer));
  const bool is_unigram = vocabulary.scheme == Scheme::unigram;
  vocabulary.add_eos = metadata.boolean_or("tokenizer.ggml.add_eos_token",
                                           is_unigram || vocabulary.scheme == Scheme::word_piece);
  if (is_unigram) {
    vocabulary.character_map = character_map_in(metadata);
    vocabulary.collapses_spaces = metadata.boolean_or("tokenizer.ggml.remove_extra_whitespaces", false);
  }
  use_cls_and_sep(metadata, vocabulary);
  if (metadata.has("tokenizer.chat_template"))
    vocabulary.chat_template = metadata.text("tokenizer.chat_template");
  if (metadata.has(kToolTemplate)) vocabulary.tool_template = metadata.text(kToolTemplate);
  return vocabulary;
}

void write_vocabulary(const EmbeddedVocabulary& vocabulary, GgufValues& values) {
  const bool is_byte_level = vocabulary.scheme == Scheme::listed_merges;
  const bool is_sentencepiece = vocabulary.scheme == Scheme::sentencepiece_bpe;
  values.text("tokenizer.ggml.model", is_byte_level ? "gpt2" : is_sentencepiece ? "llama" : "rwkv");
  values.text("tokenizer.ggml.pre", is_byte_level ? vocabulary.pre_tokenizer : "default");
  std::vector<std::string> tokens = vocabulary.tokens;
  for (std::size_t id = 0; vocabulary.scheme == Scheme::longest_match && id < tokens.size(); ++id)
    tokens[id] = escaped_token(vocabulary, id);
  values.texts("tokenizer.ggml.tokens", tokens);
  std::vector<std::int32_t> types;
  for (const TokenType type : vocabulary.types) types.push_back(static_cast<std::int32_t>(type));
  values.wholes("tokenizer.ggml.token_type", types);
  if (is_byte_level) values.texts("tokenizer.ggml.merges", vocabulary.merges);
  if (is_sentencepiece) values.numbers("tokenizer.ggml.scores", vocabulary.scores);
  const auto write_id = [&](std::string_view key, std::optional<TokenId> id) {
    if (id) values.whole(key, static_cast<std::uint32_t>(*id));
  };
  write_id("tokenizer.ggml.bos_token_id", vocabulary.bos);
  write_id("tokenizer.ggml.eos_token_id", vocabulary.eos);
  write_id("tokenizer.ggml.unknown_token_id", vocabulary.unknown);
  values.boolean("tokenizer.ggml.add_bos_token", vocabulary.add_bos);
  values.boolean("tokenizer.ggml.add_eos_token", vocabulary.add_eos);
  if (is_sentencepiece) values.boolean("tokenizer.ggml.add_space_prefix", vocabulary.add_space_prefix);
  if (vocabulary.chat_template) values.text("tokenizer.chat_template", *vocabulary.chat_template);
  if (vocabulary.tool_template) {
    const std::string names[] = {"tool_use"};
    values.texts("tokenizer.chat_templates", names);
    values.text(kToolTemplate, *vocabulary.tool_template);
  }
}

}  // namespace tp
