// Reads config.json's fields for Reformer.
#pragma once

#include "model/files/json_node.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tp {

struct CheckpointConfig;

struct ReformerConfig {
  std::vector<std::string> attn_layers{};  // [layers]; "local" or "lsh"
  std::size_t local_attn_chunk_length = 64;
  std::size_t local_num_chunks_before = 1;
  std::size_t lsh_attn_chunk_length = 64;
  std::size_t lsh_num_chunks_before = 1;
  std::size_t lsh_num_chunks_after = 0;
  std::size_t num_hashes = 1;
  std::vector<std::size_t> num_buckets{};  // factors of the bucket count; empty: set by sequence length
  std::size_t hash_seed = 0;
  std::vector<std::size_t> axial_pos_shape{};      // rows and columns; empty: one table for all positions
  std::vector<std::size_t> axial_pos_embds_dim{};  // sizes of row vectors and column vectors

  bool operator==(const ReformerConfig&) const = default;
};

// Has no effect if config.json lacks attn_layers. Throws CheckpointError.
void read_reformer(const JsonNode& fields, CheckpointConfig& config);

}  // namespace tp
