// Checkpoints with a multi-token prediction layer: a fixture's tensors, and a layer with seeded weights.
#pragma once

#include "model/config/architectures.h"
#include "model/files/strict_json.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "parallel/machine/file_text.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/read_tensor.h"
#include "tests/reference/fixture.h"
#include "tests/reference/random.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp::test {

// The fixtures of families whose checkpoints may have such a layer.
inline std::vector<reference::Fixture> fixtures_of_families_with_layer() {
  std::vector<std::string> families = supported_architectures();
  std::erase_if(families,
                [](const std::string& name) { return family_of(name).make_next_token_spec == nullptr; });
  return reference::fixtures_of(families);
}

struct Values {
  std::vector<std::size_t> shape;
  std::vector<float> elements;

  std::size_t columns() const { return shape.back(); }
};

using Tensors = std::map<std::string, Values>;

inline Tensors tensors_of(const std::filesystem::path& folder) {
  const auto source = SafetensorsCheckpoint::open(folder);
  Tensors tensors;
  for (const std::string& name : source->names()) {
    const auto& stored = source->find_raw(name)->tensor.shape;
    Values values{{stored.begin(), stored.end()}, {}};
    std::size_t size = 1;
    for (const std::size_t extent : values.shape) size *= extent;
    const MatrixShape shape{size / values.columns(), values.columns()};
    values.elements = read_whole(*source, name, shape);
    tensors[name] = std::move(values);
  }
  return tensors;
}

inline nlohmann::json config_in(const std::filesystem::path& folder) {
  // A config may contain Infinity.
  return parse_python_json(file_text(folder / "config.json"), [](const std::string&) {});
}

// Replaces the checkpoint in the folder, if any.
inline void write_checkpoint(const std::filesystem::path& folder, const nlohmann::json& config,
                             const Tensors& tensors) {
  std::vector<std::filesystem::path> earlier;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().find(".safetensors") != std::string::npos)
      earlier.push_back(entry.path());
  }
  for (const auto& path : earlier) std::filesystem::remove(path);
  std::vector<TestTensor> stored;
  for (const auto& [name, values] : tensors)
    stored.push_back({name, "F32", values.shape, bytes_of(values.elements)});
  std::ofstream(folder / "model.safetensors", std::ios::binary) << safetensors_file(stored);
  std::ofstream(folder / "config.json") << config.dump();
}

// Names of the layer's tensors, and the model's block that has the same parts.
struct NextTokenLayout {
  std::string body;  // "model."
  std::string like;  // "model.layers.2."
  std::string block;
  std::string projection;
  std::string embedding_norm;
  std::string state_norm;
  std::string final_norm;
  std::string model_head = "lm_head.weight";
  std::string embed_tokens{};  // empty: the model's table
  std::string lm_head{};
  float norm_offset = 0.0F;              // added to the gains of norms
  std::string table = "embed_tokens";    // the model's table, after `body`
  std::string attention = "self_attn.";  // name within a block
};

// The config of the language model.
template <class Json>
Json& text_config(Json& config) {
  return config.contains("text_config") ? config["text_config"] : config;
}

// Returns the last layer that is not recurrent and, if the model has indexers, has its own indexer.
inline std::size_t last_with_attention(const nlohmann::json& text) {
  std::size_t layer = text["num_hidden_layers"].get<std::size_t>() - 1;
  while (text.contains("layer_types") && text["layer_types"][layer] != "full_attention") --layer;
  const std::string indexers = text.value("index_topk_pattern", "");
  while (!indexers.empty() && indexers[layer] == 'S') --layer;
  return layer;
}

inline NextTokenLayout layout_of(const nlohmann::json& config) {
  const nlohmann::json& text = text_config(config);
  const std::string architecture = config["architectures"][0];
  const std::string part = architecture.starts_with("Kimi") ? "language_model." : "";
  const bool is_inside = part.empty() && config.contains("text_config");
  const std::string body = part + "model." + (is_inside ? "language_model." : "");
  const std::string layers = body + "layers.";
  const std::size_t count = text["num_hidden_layers"];
  const std::string like = layers + std::to_string(last_with_attention(text)) + ".";
  if (architecture.starts_with("Qwen3")) {
    return {.body = body,
            .like = like,
            .block = "mtp.layers.0.",
            .projection = "mtp.fc",
            .embedding_norm = "mtp.pre_fc_norm_embedding",
            .state_norm = "mtp.pre_fc_norm_hidden",
            .final_norm = "mtp.norm",
            .norm_offset = 1.0F};
  }
  const std::string block = layers + std::to_string(count) + ".";
  const bool is_ling = architecture.starts_with("Bailing");
  if (is_ling || architecture.starts_with("HYV3")) {
    return {.body = body,
            .like = like,
            .block = block,
            .projection = block + "eh_proj",
            .embedding_norm = block + "enorm",
            .state_norm = block + "hnorm",
            .final_norm = block + "final_layernorm",
            .table = is_ling ? "word_embeddings" : "embed_tokens",
            .attention = is_ling ? "attention." : "self_attn."};
  }
  return {.body = body,
          .like = like,
          .block = block,
          .projection = block + "eh_proj",
          .embedding_norm = block + "enorm",
          .state_norm = block + "hnorm",
          .final_norm = block + "shared_head.norm",
          .model_head = part + "lm_head.weight",
          .embed_tokens = block + "embed_tokens",
          .lm_head = block + "shared_head.head"};
}

inline Values random_values(const std::string& name, const std::vector<std::size_t>& shape, float norm_offset,
                            reference::Random& random) {
  std::size_t size = 1;
  for (const std::size_t extent : shape) size *= extent;
  Values values{shape, random.numbers(size)};
  const bool is_norm = name.find("norm") != std::string::npos && name.ends_with(".weight");
  const float spread = shape.size() == 1 ? 0.2F : std::sqrt(3.0F / static_cast<float>(shape.back()));
  for (float& value : values.elements) value = value * spread + (is_norm ? 1.0F - norm_offset : 0.0F);
  return values;
}

// Adds a layer with seeded weights to a fixture without one. `own_tables`: with its own embedding and head.
inline void add_next_token_layer(nlohmann::json& config, Tensors& tensors, bool own_tables,
                                 std::uint64_t seed = 1) {
  const NextTokenLayout layout = layout_of(config);
  reference::Random random(seed);
  Tensors added;
  const auto add = [&](const std::string& name, const std::vector<std::size_t>& shape) {
    added[name] = random_values(name, shape, layout.norm_offset, random);
  };
  for (const auto& [name, values] : tensors) {
    if (name.starts_with(layout.like)) add(layout.block + name.substr(layout.like.size()), values.shape);
  }
  const std::size_t hidden = text_config(config)["hidden_size"];
  const std::size_t vocab = text_config(config)["vocab_size"];
  add(layout.projection + ".weight", {hidden, 2 * hidden});
  for (const std::string& norm : {layout.embedding_norm, layout.state_norm, layout.final_norm})
    add(norm + ".weight", {hidden});
  if (own_tables && !layout.embed_tokens.empty()) {
    add(layout.embed_tokens + ".weight", {vocab, hidden});
    add(layout.lm_head + ".weight", {vocab, hidden});
  }
  tensors.merge(added);
  if (layout.block.starts_with(layout.body)) text_config(config)["num_nextn_predict_layers"] = 1;
}

// Writes a fixture's checkpoint with an untrained layer.
inline void write_checkpoint_with_layer(const std::filesystem::path& folder,
                                        const reference::Fixture& fixture, bool own_tables) {
  nlohmann::json config = config_in(fixture.folder);
  Tensors tensors = tensors_of(fixture.folder);
  add_next_token_layer(config, tensors, own_tables);
  write_checkpoint(folder, config, tensors);
}

}  // namespace tp::test
