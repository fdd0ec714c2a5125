// Processing before and after an embedding model, as specified by Sentence Transformers files in the model's
// folder: modules.json and the folders it lists, sentence_bert_config.json,
// config_sentence_transformers.json.
#pragma once

#include "model/layers/sequence_head.h"
#include "tp/model_kind.h"

#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tp {

class JsonNode;

class SentencePipeline {
 public:
  // Loads the pipeline from a model's folder, or from a GGUF file: its pooling and dense layers; if it
  // has a pooling, pooled states are normalized. Without modules.json, the pipeline of a folder does nothing.
  // Throws CheckpointError for damaged files and unsupported modules.
  static SentencePipeline load(const std::filesystem::path& folder, std::size_t hidden_size);

  // The model's pooling; nullopt if the model's files do not specify it.
  std::optional<Pooling> pooling() const { return pooling_; }
  bool normalizes() const { return normalizes_; }
  // Maximum tokens per text (max_seq_length); unlimited by default.
  std::size_t max_tokens() const { return max_tokens_; }
  // Whether texts are converted to lower case before tokenization.
  bool lower_case() const { return lower_case_; }
  std::size_t embedding_size() const { return size_; }

  // The prompt to put in front of texts. `name`: "query", for example; an empty name selects the model's
  // default prompt, which may be empty. Throws RequestError if the model has no prompt with this name, or if
  // its pooling excludes prompts.
  const std::string& prompt(const std::string& name) const;

  // Applies the layers that follow pooling, but does not normalize. [hidden_size] -> [embedding_size]
  std::vector<float> operator()(std::vector<float> pooled) const;

 private:
  void add_module(const JsonNode& module, const std::filesystem::path& folder);
  void read_gguf(const std::filesystem::path& file);
  void read_transformer(const std::filesystem::path& folder);
  void read_pooling_module(const std::filesystem::path& file);
  void read_normalize(const std::filesystem::path& file);
  void read_prompts(const std::filesystem::path& file);

  std::size_t max_tokens_ = std::numeric_limits<std::size_t>::max();
  bool lower_case_ = false;
  std::optional<Pooling> pooling_;
  bool pools_prompts_ = true;
  std::vector<PooledLayer> layers_;
  bool normalizes_ = false;
  std::size_t size_ = 0;
  std::map<std::string, std::string> prompts_;
  std::string default_prompt_;
};

// Scales a vector to length 1. A zero vector stays zero.
void normalize(std::vector<float>& vector);

}  // namespace tp
