#include "model/tokenizer/gguf_vocabulary.h"

#include "model/weights/checkpoint/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <string_view>

namespace tp {
namespace {

using Scheme = EmbeddedVocabulary::Scheme;

constexpr std::string_view kToolTemplate = "tokenizer.chat_template.tool_use";  // as gguf-py names it

Scheme scheme_of(std::string_view model, const GgufMetadata& metadata) {
  if (model == "gpt2") return Scheme::byte_level_bpe;
  if (model == "llama") return Scheme::sentencepiece_bpe;
  throw_error<CheckpointError>(
      "{}: tokenizer.ggml.model is \"{}\", expected gpt2 or llama; use the model's tokenizer.json",
      metadata.where(), printable(model));
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

// Beyond the largest vocabulary, an id is as wrong as it was; the vocabulary's check says so.
std::optional<TokenId> id_of(const GgufMetadata& metadata, std::string_view key) {
  if (!metadata.has(key)) return std::nullopt;
  return static_cast<TokenId>(std::min<std::uint64_t>(metadata.whole(key), kMaxVocabularySize));
}

// The families whose files need not say that BOS goes before every text.
bool adds_bos_by_default(Scheme scheme, std::string_view pre_tokenizer) {
  return scheme == Scheme::sentencepiece_bpe || pre_tokenizer.starts_with("llama") ||
         pre_tokenizer == "falcon3" || pre_tokenizer == "tekken";
}

}  // namespace

std::optional<EmbeddedVocabulary> gguf_vocabulary(const GgufMetadata& metadata) {
  const std::string_view model = metadata.text_or("tokenizer.ggml.model", "none");
  if (model == "none" || model == "no_vocab") return std::nullopt;
  EmbeddedVocabulary vocabulary;
  vocabulary.scheme = scheme_of(model, metadata);
  vocabulary.tokens = strings(metadata, "tokenizer.ggml.tokens");
  vocabulary.types = types_of(metadata);
  if (vocabulary.scheme == Scheme::sentencepiece_bpe) {
    for (const double score : metadata.numbers("tokenizer.ggml.scores"))
      vocabulary.scores.push_back(static_cast<float>(score));
  } else {
    vocabulary.merges = strings(metadata, "tokenizer.ggml.merges");
    // Files from before pre-tokenizers had names say nothing, or this.
    const std::string_view name = metadata.text_or("tokenizer.ggml.pre", "default");
    vocabulary.pre_tokenizer = name == "default" ? "gpt-2" : name;
  }
  vocabulary.bos = id_of(metadata, "tokenizer.ggml.bos_token_id");
  vocabulary.eos = id_of(metadata, "tokenizer.ggml.eos_token_id");
  vocabulary.unknown = id_of(metadata, "tokenizer.ggml.unknown_token_id");
  vocabulary.add_space_prefix = metadata.boolean_or("tokenizer.ggml.add_space_prefix", true);
  vocabulary.add_bos = metadata.boolean_or("tokenizer.ggml.add_bos_token",
                                           adds_bos_by_default(vocabulary.scheme, vocabulary.pre_tokenizer));
  vocabulary.add_eos = metadata.boolean_or("tokenizer.ggml.add_eos_token", false);
  if (metadata.has("tokenizer.chat_template"))
    vocabulary.chat_template = metadata.text("tokenizer.chat_template");
  if (metadata.has(kToolTemplate)) vocabulary.tool_template = metadata.text(kToolTemplate);
  return vocabulary;
}

void write_vocabulary(const EmbeddedVocabulary& vocabulary, GgufValues& values) {
  const bool is_byte_level = vocabulary.scheme == Scheme::byte_level_bpe;
  values.text("tokenizer.ggml.model", is_byte_level ? "gpt2" : "llama");
  values.text("tokenizer.ggml.pre", is_byte_level ? vocabulary.pre_tokenizer : "default");
  values.texts("tokenizer.ggml.tokens", vocabulary.tokens);
  std::vector<std::int32_t> types;
  for (const TokenType type : vocabulary.types) types.push_back(static_cast<std::int32_t>(type));
  values.wholes("tokenizer.ggml.token_type", types);
  if (is_byte_level)
    values.texts("tokenizer.ggml.merges", vocabulary.merges);
  else
    values.numbers("tokenizer.ggml.scores", vocabulary.scores);
  const auto write_id = [&](std::string_view key, std::optional<TokenId> id) {
    if (id) values.whole(key, static_cast<std::uint32_t>(*id));
  };
  write_id("tokenizer.ggml.bos_token_id", vocabulary.bos);
  write_id("tokenizer.ggml.eos_token_id", vocabulary.eos);
  write_id("tokenizer.ggml.unknown_token_id", vocabulary.unknown);
  values.boolean("tokenizer.ggml.add_bos_token", vocabulary.add_bos);
  values.boolean("tokenizer.ggml.add_eos_token", vocabulary.add_eos);
  if (!is_byte_level) values.boolean("tokenizer.ggml.add_space_prefix", vocabulary.add_space_prefix);
  if (vocabulary.chat_template) values.text("tokenizer.chat_template", *vocabulary.chat_template);
  if (vocabulary.tool_template) {
    const std::string names[] = {"tool_use"};
    values.texts("tokenizer.chat_templates", names);
    values.text(kToolTemplate, *vocabulary.tool_template);
  }
}

}  // namespace tp
