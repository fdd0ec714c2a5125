// Sequences to vectors, with what is stored beside a model about it.
#pragma once

#include "model/layers/sentence_pipeline.h"
#include "tp/engine.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// A sequence as an encoder reads it.
struct EncoderInput {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> token_types{};    // empty: all 0
  std::vector<std::uint8_t> global_tokens{};  // empty: none
  std::vector<TokenId> decoder_ids{};         // what the decoder of an encoder-decoder reads
};

// That asks nothing yet.
Request request_of(EncoderInput input);

// The same of two texts together. Throws RequestError, or CheckpointError if the tokenizer has no pairs.
Request pair_request(const Engine& engine, std::string_view first, std::string_view second);

struct EmbedOptions {
  std::optional<Pooling> pooling{};  // none: the model's, or else the mean, of decoders the last token
  bool through_pooler = false;       // the first token's state, and the model's own layer over it
  bool normalize = false;            // even if the model does not
};

class Embedder {
 public:
  // `folder` is the model's. Throws CheckpointError for damaged files, ConfigError for a pooler that the
  // model does not have. `engine` must outlive it.
  Embedder(const Engine& engine, const std::filesystem::path& folder, const EmbedOptions& options);

  std::size_t embedding_size() const;
  // The longest input, in tokens: the engine's maximum, or the model's max_seq_length if that is less.
  std::size_t max_length() const;

  // The ids of a text, behind the model's prompt of that name. Throws RequestError.
  EncoderInput encode(const std::string& text, const std::string& prompt_name = {}) const;
  // Asks for the input's pooled state. Throws TooLongError for an input that the engine could read, but that
  // is longer than the model's max_seq_length.
  Request make_request(EncoderInput input) const;
  // What the event of that request becomes. From any thread.
  std::vector<float> embedding(std::vector<float> pooled) const;

 private:
  const Engine* engine_;
  SentencePipeline pipeline_;
  Pooling pooling_;
  bool through_pooler_;
  bool normalizes_;
};

// The pooling of a model without files that say which.
Pooling usual_pooling(ModelKind kind);

}  // namespace tp
