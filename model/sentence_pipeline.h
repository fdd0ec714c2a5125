// What embedding models do with hidden states, as Sentence Transformers stores it beside them: modules.json
// and the folders that it lists, config_sentence_transformers.json.
#pragma once

#include "model/layers/sequence_head.h"
#include "tp/model_kind.h"

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tp {

class SentencePipeline {
 public:
  // Of the model in a folder; does nothing where that has no modules.json. Throws CheckpointError for files
  // that are damaged or list what is not supported.
  static SentencePipeline load(const std::filesystem::path& folder, std::size_t hidden_size);

  // How a sequence is pooled, if the model says so.
  std::optional<Pooling> pooling() const { return pooling_; }
  bool normalizes() const { return normalizes_; }
  std::size_t embedding_size() const { return size_; }

  // What is put in front of texts, by its name ("query"). Throws RequestError for one that the model does not
  // have; without a name the model's default, which may be empty.
  const std::string& prompt(const std::string& name) const;

  // The layers behind the pooling, but not the normalization. [hidden_size] -> [embedding_size]
  std::vector<float> operator()(std::vector<float> pooled) const;

 private:
  std::optional<Pooling> pooling_;
  std::vector<PooledLayer> layers_;
  bool normalizes_ = false;
  std::size_t size_ = 0;
  std::map<std::string, std::string> prompts_;
  std::string default_prompt_;
};

// Scales a vector to length 1; one without a length stays.
void normalize(std::vector<float>& vector);

}  // namespace tp
