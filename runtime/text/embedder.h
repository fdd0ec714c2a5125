// Turns sequences into vectors, as the files stored with a model describe.
#pragma once

#include "model/layers/sentence_pipeline.h"
#include "tp/engine.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// A request that contains this prompt and asks for nothing yet.
Request prompt_request(std::vector<TokenId> ids, std::vector<std::uint8_t> token_types = {});

struct EmbedOptions {
  std::optional<Pooling> pooling{};  // none: the model's pooling, or else usual_pooling()
  bool through_pooler = false;       // apply the model's pooler, which also determines the pooling
  bool normalize = false;            // even if the model's files do not ask for it
};

class Embedder {
 public:
  // `folder`: the model's folder. `engine` must outlive this object. Throws CheckpointError for damaged
  // files, and ConfigError if the model has no pooler but the options ask for it.
  Embedder(const Engine& engine, const std::filesystem::path& folder, const EmbedOptions& options);

  std::size_t embedding_size() const;
  // Largest number of tokens of an input: the engine's maximum, or the model's max_seq_length if that is
  // less.
  std::size_t max_length() const;

  // Tokenizes a text, with the model's prompt of this name in front, into a request that asks for nothing
  // yet. Without a name, the prompt is the model's default prompt, or the instruction of the engine's task.
  // Throws RequestError.
  Request encode(const std::string& text, const std::string& prompt_name = {}) const;
  // Asks for the prompt's pooled state. Throws TooLongError if the prompt fits the engine but exceeds the
  // model's max_seq_length.
  Request ask_for_state(Request prompt) const;
  // Throws RequestError if embeddings cannot be cut to this size. 0: they stay whole.
  void require_dimensions(std::size_t dimensions) const;
  // Turns the pooled state from the request's event into an embedding. If `dimensions` is not 0, the
  // embedding is cut to its first elements and normalized (Matryoshka embeddings). From any thread.
  std::vector<float> embedding(std::vector<float> pooled, std::size_t dimensions = 0) const;

 private:
  const Engine* engine_;
  SentencePipeline pipeline_;
  Pooling pooling_;
  bool through_pooler_;
  bool normalizes_;
};

// The pooling of a model whose files do not specify any.
Pooling usual_pooling(ModelKind kind);

}  // namespace tp
