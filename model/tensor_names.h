// The names of tensors in Hugging Face checkpoints; no other file knows them.
#pragma once

#include <cstddef>
#include <string>

namespace tp::tensor_names {

std::string embed_tokens();
std::string final_norm();
std::string lm_head();

struct GatedMlp {
  std::string gate_proj;
  std::string up_proj;
  std::string down_proj;
};

struct Experts {
  std::string router;
  std::string correction_bias;  // a tensor, not a layer
  GatedMlp shared_expert;
  std::string shared_expert_gate;
  std::string experts;  // an expert's index follows, and
  GatedMlp parts;       // one of these

  GatedMlp expert(std::size_t index) const;
};

struct LatentAttention {
  std::string q_proj;  // without q_lora_rank
  std::string q_a_proj;
  std::string q_a_norm;
  std::string q_b_proj;
  std::string kv_a_proj;
  std::string kv_a_norm;
  std::string kv_b_proj;
  std::string o_proj;
};

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
  Experts experts;
  LatentAttention latent_attention;
};

// The names above are of layers; these are of what a layer holds.
std::string weight_of(const std::string& layer);
std::string bias_of(const std::string& layer);

}  // namespace tp::tensor_names
