#include "runtime/text/embedder.h"

#include "model/tokenizer/text/unicode.h"
#include "runtime/text/finite_results.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

namespace tp {

Request prompt_request(std::vector<TokenId> ids, std::vector<std::uint8_t> token_types) {
  Request request;
  request.prompt = std::move(ids);
  request.token_types = std::move(token_types);
  request.max_tokens = 0;
  return request;
}

Pooling usual_pooling(ModelKind kind) {
  return kind == ModelKind::decoder || kind == ModelKind::list_reranker ? Pooling::last : Pooling::mean;
}

Embedder::Embedder(const Engine& engine, const std::filesystem::path& folder, const EmbedOptions& options)
    : engine_(&engine),
      pipeline_(SentencePipeline::load(folder, engine.info().state_size)),
      pooling_(options.pooling.value_or(pipeline_.pooling().value_or(usual_pooling(engine.info().kind)))),
      through_pooler_(options.through_pooler),
      normalizes_(options.normalize || pipeline_.normalizes()) {
  if (!through_pooler_) return;
  require<ConfigError>(
      engine.info().kind == ModelKind::encoder && engine.info().head_pooling,
      "cannot pool by the model's pooler: expected an encoder whose checkpoint has one, found {}; "
      "use another pooling",
      engine.info().config.architecture);
  pooling_ = *engine.info().head_pooling;
}

std::size_t Embedder::embedding_size() const { return pipeline_.embedding_size(); }

std::size_t Embedder::max_length() const {
  return std::min(engine_->info().options.max_length, pipeline_.max_tokens());
}

Request Embedder::encode(const std::string& text, const std::string& prompt_name) const {
  std::string prompt = pipeline_.prompt(prompt_name);
  if (prompt.empty() && prompt_name.empty()) prompt = engine_->info().config.task_instruction;
  const std::string whole = prompt + text;
  return prompt_request(engine_->encode(pipeline_.lower_case() ? unicode::to_lower(whole) : whole));
}

Request Embedder::ask_for_state(Request prompt) const {
  const std::size_t found = prompt.prompt.size();
  require<TooLongError>(found <= max_length() || found > engine_->info().options.max_length,
                        "the text has {} tokens but the model embeds at most {} (max_seq_length in "
                        "sentence_bert_config.json); shorten it",
                        found, max_length());
  prompt.pooling = pooling_;
  return prompt;
}

void Embedder::require_dimensions(std::size_t dimensions) const {
  if (dimensions == 0) return;
  require<RequestError>(dimensions <= embedding_size(),
                        "`dimensions`: expected at most the model's {}, found {}", embedding_size(),
                        dimensions);
  const std::vector<std::size_t>& sizes = engine_->info().config.matryoshka_dimensions;
  require<RequestError>(sizes.empty() || std::ranges::find(sizes, dimensions) != sizes.end(),
                        "`dimensions`: expected one of the model's matryoshka_dimensions ({}), found {}",
                        fmt::join(sizes, ", "), dimensions);
}

std::vector<float> Embedder::embedding(std::vector<float> pooled, std::size_t dimensions) const {
  if (through_pooler_) pooled = engine_->sequence_head(std::move(pooled));
  std::vector<float> embedding = pipeline_(std::move(pooled));
  if (dimensions != 0) embedding.resize(dimensions);
  if (normalizes_ || dimensions != 0) normalize(embedding);
  require_finite(embedding, "embeddings");
  return embedding;
}

}  // namespace tp
