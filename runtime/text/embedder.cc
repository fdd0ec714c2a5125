#include "runtime/text/embedder.h"

#include "model/tokenizer/text/unicode.h"
#include "runtime/text/finite_results.h"
#include "tp/internal/require.h"
#include "tp/marked_text.h"

#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <utility>

#include <fmt/ranges.h>

namespace tp {

Request request_of(EncoderInput input) {
  Request request;
  request.prompt = std::move(input.ids);
  request.token_types = std::move(input.token_types);
  request.global_tokens = std::move(input.global_tokens);
  request.decoder_prompt = std::move(input.decoder_ids);
  request.max_tokens = 0;
  return request;
}

namespace {

// The template with texts in place of their names. The texts cannot write control tokens.
MarkedText fill_in(std::string_view form,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> texts) {
  MarkedText prompt;
  while (true) {
    std::size_t place = form.size();
    std::pair<std::string_view, std::string_view> next;
    for (const auto& text : texts) {
      const std::size_t found = form.find(text.first);
      if (found < place) std::tie(place, next) = std::pair(found, text);
    }
    prompt.append(form.substr(0, place));
    if (place == form.size()) return prompt;
    prompt.append_input(next.second);
    form.remove_prefix(place + next.first.size());
  }
}

}  // namespace

// Models without token types get no types for the second text, either.
Request pair_request(const Engine& engine, std::string_view first, std::string_view second) {
  if (const std::string& form = engine.info().config.pair_template; !form.empty())
    return request_of({engine.encode(fill_in(form, {{"{query}", first}, {"{document}", second}}))});
  EncodedPair pair = engine.encode_pair(first, second);
  const bool has_types = engine.info().config.type_vocab_size > 1;
  return request_of(
      {std::move(pair.ids), has_types ? std::move(pair.token_types) : std::vector<std::uint8_t>()});
}

Request prompt_or_pair_request(const Engine& engine, std::string_view first, std::string_view second) {
  const std::string& form = engine.info().config.pair_template;
  if (form.empty() || !first.starts_with(form.substr(0, form.find('\n'))))
    return pair_request(engine, first, second);
  return request_of({engine.encode(MarkedText(std::string(first).append(second)))});
}

Pooling usual_pooling(ModelKind kind) { return kind == ModelKind::decoder ? Pooling::last : Pooling::mean; }

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

EncoderInput Embedder::encode(const std::string& text, const std::string& prompt_name) const {
  const std::string whole = pipeline_.prompt(prompt_name) + text;
  return {engine_->encode(pipeline_.lower_case() ? unicode::to_lower(whole) : whole)};
}

Request Embedder::make_request(EncoderInput input) const {
  const std::size_t found = input.ids.size();
  require<TooLongError>(found <= max_length() || found > engine_->info().options.max_length,
                        "the text has {} tokens but the model embeds at most {} (max_seq_length in "
                        "sentence_bert_config.json); shorten it",
                        found, max_length());
  Request request = request_of(std::move(input));
  request.pooling = pooling_;
  return request;
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
