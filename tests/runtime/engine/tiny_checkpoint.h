// A checkpoint of one layer that a test can damage.
#pragma once

#include "tests/model/weights/checkpoint_files.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tp::test {

class TinyCheckpoint {
 public:
  TinyCheckpoint() {
    add("model.embed_tokens.weight", {40, 8});
    add("model.norm.weight", {8});
    add("lm_head.weight", {40, 8});
    add_layer(0);
  }

  // Adds the tensors of a layer.
  void add_layer(std::size_t layer) {
    const std::string block = "model.layers." + std::to_string(layer) + ".";
    add(block + "input_layernorm.weight", {8});
    add(block + "self_attn.q_proj.weight", {8, 8});
    add(block + "self_attn.k_proj.weight", {4, 8});
    add(block + "self_attn.v_proj.weight", {4, 8});
    add(block + "self_attn.o_proj.weight", {8, 8});
    add(block + "post_attention_layernorm.weight", {8});
    add(block + "mlp.gate_proj.weight", {12, 8});
    add(block + "mlp.up_proj.weight", {12, 8});
    add(block + "mlp.down_proj.weight", {8, 12});
  }

  nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                           {"hidden_size", 8},
                           {"intermediate_size", 12},
                           {"num_hidden_layers", 1},
                           {"num_attention_heads", 4},
                           {"num_key_value_heads", 2},
                           {"vocab_size", 40},
                           {"max_position_embeddings", 64},
                           {"torch_dtype", "float32"}};

  void remove(const std::string& name) {
    std::erase_if(tensors_, [&](const TestTensor& tensor) { return tensor.name == name; });
  }
  // Sets a different shape with different values.
  void reshape(const std::string& name, const std::vector<std::size_t>& shape) {
    remove(name);
    add(name, shape);
  }
  void fill(const std::string& name, float value) {
    for (TestTensor& tensor : tensors_) {
      if (tensor.name == name)
        tensor.data = bytes_of(std::vector<float>(tensor.data.size() / sizeof(float), value));
    }
  }

  std::string weights() const { return safetensors_file(tensors_); }
  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    write_file(folder / "config.json", config.dump());
    write_file(folder / "model.safetensors", weights());
  }
  static void write_file(const std::filesystem::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
  }

 private:
  void add(const std::string& name, const std::vector<std::size_t>& shape) {
    std::size_t size = 1;
    for (const std::size_t extent : shape) size *= extent;
    reference::Random random(tensors_.size() + 1);
    tensors_.push_back({name, "F32", shape, bytes_of(random.numbers(size))});
  }

  std::vector<TestTensor> tensors_;
};

}  // namespace tp::test
