// The names of a family's tensors in Hugging Face checkpoints and GGUF files, and which parts share a tensor.
// model/config/families contains the names that are not usual.
#pragma once

#include "model/config/block_names.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tp {

class WeightSource;

// The tensors of a family in GGUF files, and the changes that converters make to them.
struct GgufTensorNames {
  std::string embed_tokens = "token_embd";
  std::string embed_positions = "position_embd";
  std::string token_types = "token_types";
  std::string embedding_norm = "token_embd_norm";
  PerLayerInputNames per_layer_inputs = gguf_names(kPerLayerInputTensors);
  std::string hash_table = "per_layer_token_embd";
  AltUpStreamNames altup_streams = gguf_names(kAltUpStreamTensors);
  HyperConnectionNames last_connection = gguf_names(kLastConnectionTensors);
  LowRankConnectionNames last_low_rank = gguf_names(kLastLowRankTensors);
  DepthAttentionNames last_residual = gguf_names(kLastResidualTensors);
  std::string final_norm = "output_norm";
  std::string lm_head = "output";
  // Layers over a sequence's pooled state: their names in checkpoints and in GGUF files.
  std::vector<std::pair<std::string, std::string>> sequence_head{};
  BlockNames block = gguf_block();
  // The halves of a query or key head, which RoPE rotates together, are interleaved: row i of the first half,
  // then row i of the second half.
  bool interleaved_query_key = false;
  // The order of the gated delta net's value heads: the first one of each key head, then the second one of
  // each key head, and so on.
  bool tiled_value_heads = false;
  // Files store exp(value), not -exp(value), of the gated delta net's decays.
  bool positive_decays = false;
  // Files store kv_b as one tensor instead of two stacks, and sizes of heads instead of the cache's.
  bool whole_kv_b = false;
  float norm_offset = 0.0F;       // converters add this to the gains of norms
  bool offset_final_norm = true;  // also add norm_offset to the final norm's gains
  // Norms of queries and keys have gains in the file only. The queries' gain is the factor of attention
  // scores in addition to the usual scale; the keys' gain is 1.
  bool query_norm_is_scale = false;
};

// Everything on which the places of a block's tensors in GGUF files depend.
struct GgufContext {
  const BlockNames& block;
  const GgufTensorNames& gguf;
  const GgufHeads& heads;
};

// The tensors of a family.
struct TensorNames {
  std::string prefix;  // prefix of all names except the LM head; checkpoints without a head omit it
  // Prefix of all names, before `prefix`, if the model is part of a larger one. Newer checkpoints replace
  // both prefixes by "model." and part_prefix, and the LM head has no prefix there.
  std::string part_prefix{};
  std::string embed_tokens;
  std::string embed_positions;
  std::string axial_positions{};  // followed by the number of a table, 0 or 1
  std::string token_types{};
  std::string embedding_norm{};
  std::string embedding_projection{};
  std::string relative_bias{};
  PerLayerInputNames per_layer_inputs{};
  std::string hash_table{};  // HashTableNames::only_table
  AltUpStreamNames altup_streams{};
  HyperConnectionNames last_connection{};
  LowRankConnectionNames last_low_rank{};
  DepthAttentionNames last_residual{};
  SelfConditioningNames self_conditioning{};
  std::string final_norm;
  std::string lm_head;
  std::string lm_head_bias{};      // without ".bias"; empty: the name is lm_head
  std::string lm_head_bias_row{};  // alternative to lm_head_bias: a tensor [1, vocab_size], not a layer
  std::string head_dense{};        // before the LM head, followed by head_norm
  std::string head_norm{};
  std::string draft_ids{};  // a tensor: token minus row of the LM head, for each row
  std::string blocks;       // followed by a block's number
  // Replaces `blocks` in checkpoints that store their only block without a number: "midlayer.".
  std::string lone_block{};
  bool blocks_have_prefix = true;  // false: names of blocks do not begin with `prefix`
  BlockNames (*names_of_block)(const std::string& prefix) = nullptr;
  // Replaces names_of_block in checkpoints that have other names of the same tensors. Null: there are none.
  BlockNames (*other_names_of_block)(const std::string& prefix) = nullptr;
  std::vector<std::string> buffers = {"rotary_emb.inv_freq"};  // name endings of tensors without weights
  std::vector<std::string> ignored_layers{};    // not used, without `blocks`: "15.self_attn.k_proj"
  std::vector<std::size_t> ignored_blocks{};    // stored after the decoder's blocks, but not used
  std::vector<std::string> ignored_prefixes{};  // prefixes of multi-token prediction tensors
  std::vector<std::size_t> stored_blocks{};     // [layers]; empty: the layer's number
  std::string body{};                           // set by as_stored_in: prefix of all names outside the heads
  GgufTensorNames gguf{};
  bool uses_qkv_proj = false;   // the checkpoint stores BlockNames::qkv_proj
  bool has_lone_block = false;  // set by as_stored_in: `blocks` is the name of the only block

  // The number of the block that stores a layer.
  std::size_t stored_block(std::size_t layer) const {
    return stored_blocks.empty() ? layer : stored_blocks[layer];
  }
  BlockNames block(std::size_t layer) const;

  // Adds prefixes to all names, as in `source`.
  TensorNames as_stored_in(const WeightSource& source) const;
  // Replaces the final norm by the multi-token prediction layer's, and also the embedding and the LM head if
  // `source` has them.
  TensorNames of_next_token_layer(const WeightSource& source) const;
};

namespace tensor_names {

// Names of tensors in a layer.
std::string weight_of(const std::string& layer);
std::string bias_of(const std::string& layer);

}  // namespace tensor_names
}  // namespace tp
