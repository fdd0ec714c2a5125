// The names of tensors in Hugging Face checkpoints; no other file knows them.
#pragma once

#include <cstddef>
#include <string>

namespace tp::tensor_names {

std::string embed_tokens();
std::string final_norm();
std::string lm_head();

// The tensors of block `layer`.
struct Block {
  explicit Block(std::size_t layer);

  std::string input_norm;
  std::string q_proj;
  std::string k_proj;
  std::string v_proj;
  std::string o_proj;
  std::string post_attention_norm;
  std::string gate_proj;
  std::string up_proj;
  std::string down_proj;
};

// The names above are of layers; these are of what a layer holds.
std::string weight_of(const std::string& layer);
std::string bias_of(const std::string& layer);

}  // namespace tp::tensor_names
