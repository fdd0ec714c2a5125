// Reads config.json's fields for encoders and diffusion models.
#pragma once

#include "model/files/json_node.h"
#include "tp/token_id.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tp {

struct CheckpointConfig;

struct EncoderConfig {
  std::size_t num_hidden_groups = 0;               // groups of layers that share weights; 0: none
  std::size_t global_attn_every_n_layers = 0;      // layers 0, n, 2n, ... have no window
  std::size_t relative_attention_num_buckets = 0;  // 0: no relative position bias
  std::size_t relative_attention_max_distance = 128;
  std::vector<std::size_t> attention_window{};    // [layers]; window sizes, half on each side of a token
  std::vector<std::size_t> attention_dilation{};  // [layers] or empty (no dilation); window dilations
  bool block_sparse = false;                      // sparse attention, in blocks of block_size tokens
  std::size_t block_size = 64;
  std::size_t num_random_blocks = 3;
  std::string classifier_pooling = "cls";
  std::string classifier_activation = "gelu";
  std::size_t max_length = 0;             // NeoBERT's max_position_embeddings; 0: none
  std::size_t max_trained_positions = 0;  // longer sequences would scale RoPE; 0: RoPE is never scaled
  std::size_t moe_every_n_layers = 0;     // layers 1, n + 1, 2 n + 1, ... have experts; 0: none
  // The tokens that stand for no and yes, if the LM head's logits for them are a classifier; else empty.
  std::vector<TokenId> classifier_token_ids{};
  // Rows of the layer for scores, if the file has only the LM head's rows for these tokens, and the tokens
  // are places among them; 0: the tokens are ids of the vocabulary.
  std::size_t classifier_rows = 0;
  std::size_t projector_dim = 0;  // size of the vectors by whose cosines a listwise reranker scores
  // Adapters that the checkpoint stores with its weights, one for each task, and the task whose adapter is
  // in use (empty: none).
  std::vector<std::string> lora_adaptations{};
  std::size_t lora_rank = 0;
  double lora_alpha = 1.0;
  std::string lora_task;

  bool operator==(const EncoderConfig&) const = default;
};

// Call after reading sizes. `where` names the file in errors. Throws ConfigError or CheckpointError.
void read_encoder(const JsonNode& fields, const std::string& where, CheckpointConfig& config);
// Reads mask_token_id or canvas_length, which only diffusion language models have.
void read_mask_or_canvas(const JsonNode& fields, const std::string& where, CheckpointConfig& config);

}  // namespace tp
