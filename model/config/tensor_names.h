// The names of a family's tensors in Hugging Face checkpoints and GGUF files, and which parts share a tensor.
// model/config/families contains the names; names common to GGUF files are here.
#pragma once

#include "model/config/mamba_part.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

class WeightSource;

struct GatedMlpNames {
  std::string gate_proj;
  std::string up_proj;
  std::string down_proj;
  // Replaces gate_proj and up_proj in files that store them as one tensor, gates first, although the family's
  // other files do not.
  std::string gate_up_proj{};
};

// Tensors with one matrix per expert, [experts, out_features, in_features], and biases, [experts,
// out_features].
struct ExpertStackNames {
  std::string gate_up_proj;  // twice an expert's width in rows
  std::string gate_up_bias;
  std::string down_proj;
  std::string down_bias;
  bool transposed = false;   // matrices are stored as [in_features, out_features]
  bool alternating = false;  // rows of gate_proj and up_proj alternate; else gate_proj comes first
};

struct ExpertNames {
  std::string router;
  std::string correction_bias;  // a tensor, not a layer
  // Tensors, not layers: the gain of the router's norm, and the factors of the experts' weights.
  std::string router_scale{};
  std::string per_expert_scale{};
  // Layers before and after all routed experts (see MixtureOfExpertsSpec::latent_size).
  std::string latent_down{};
  std::string latent_up{};
  GatedMlpNames shared_expert;
  std::string shared_expert_gate;
  std::string experts;  // prefix of an expert's index
  GatedMlpNames parts;  // names after an expert's index
  // Tensors that contain all experts; empty: the names of all_experts().
  ExpertStackNames stacks{};

  GatedMlpNames expert(std::size_t index) const;
  // `stacks`, or transformers 5's names if it is empty: "experts.gate_up_proj", "experts.down_proj".
  ExpertStackNames all_experts() const;
};

struct IndexerNames {
  std::string q_b_proj;
  std::string k_proj;
  std::string k_norm;
  std::string weights_proj;
};

struct LatentAttentionNames {
  std::string q_proj;  // if there is no q_lora_rank
  std::string q_a_proj;
  std::string q_a_norm;
  std::string q_b_proj;
  std::string kv_a_proj;
  std::string kv_a_norm;
  std::string kv_b_proj;
  std::string o_proj;
  IndexerNames indexer{};
};

struct CrossAttentionNames {
  std::string norm;
  std::string q_proj;
  std::string k_proj;
  std::string v_proj;
  std::string o_proj;
};

struct GatedDeltaNetNames {
  // Queries, keys, values and gates, grouped by key head. Alternatively two tensors: in_proj_qkv with all
  // queries, then all keys, then all values; and in_proj_z with the gates.
  std::string in_proj_qkvz{};
  std::string in_proj_qkv{};
  std::string in_proj_z{};
  // Strengths and decays, grouped by key head. Alternatively two tensors.
  std::string in_proj_ba{};
  std::string in_proj_b{};
  std::string in_proj_a{};
  std::string conv{};  // channels of queries, keys and values
  // Separate layers for queries, keys and values.
  std::string q_proj{};
  std::string k_proj{};
  std::string v_proj{};
  std::string q_conv{};
  std::string k_conv{};
  std::string v_conv{};
  // Pairs of layers that project decays and output gates (see GatedDeltaNetSpec::gate_rank).
  std::string decay_down{};
  std::string decay_up{};
  std::string gate_down{};
  std::string gate_up{};
  std::string decay;       // a tensor, not a layer
  std::string decay_bias;  // a tensor, not a layer
  std::string norm;
  std::string out_proj;
};

struct ShortConvolutionNames {
  std::string in_proj;  // rows: the gate before the convolution, the gate after it, the value
  std::string conv;
  std::string out_proj;
};

// Tensors of a multi-token prediction layer outside its block.
struct NextTokenNames {
  std::string projection;
  std::string embedding_norm;
  std::string state_norm;
  std::string final_norm;
  // If these tensors are missing, the layer uses the model's.
  std::string embed_tokens{};
  std::string lm_head{};
};

struct LayerInputNames {
  std::string gate;
  std::string projection;
  std::string norm;
};

// Tensors that compute the inputs of all layers.
struct PerLayerInputNames {
  std::string embed_tokens;
  std::string projection;
  std::string norm;
};

// The layers of one block, without ".weight" and ".bias". Layers that a family lacks are empty. Projections
// with the same name are stored as one tensor.
struct BlockNames {
  // The order of rows in a tensor of queries, keys and values: stacked, or grouped by KV head (its queries,
  // its key, its value).
  enum class FusedQkv : std::uint8_t { stacked, by_kv_head };

  std::string input_norm;
  std::string q_proj;
  std::string k_proj;
  std::string v_proj;
  FusedQkv fused_qkv = FusedQkv::stacked;
  // Replaces the three projections in files that store them as one tensor, although the family's other files
  // do not.
  std::string qkv_proj{};
  std::string q_norm;
  std::string k_norm;
  std::string sinks;  // a tensor, not a layer
  // Gates of attention's output. Empty: each head's gates are stored after its queries.
  std::string attention_gate{};
  std::string o_proj;
  std::string post_attention_norm;
  std::string pre_feed_forward_norm;
  std::string gate_proj;
  std::string up_proj;
  std::string down_proj;
  std::string gate_up_proj{};  // see GatedMlpNames
  std::string activation{};    // prefix of an activation's parameters
  std::string post_feed_forward_norm;
  ExpertNames experts{};
  // Norms around experts in addition to an MLP: after the MLP, before the experts and after them.
  std::string mlp_norm{};
  std::string experts_input_norm{};
  std::string experts_norm{};
  LayerInputNames layer_input{};
  std::string output_scale{};  // a tensor, not a layer
  LatentAttentionNames latent_attention{};
  GatedDeltaNetNames delta_net{};
  ShortConvolutionNames short_convolution{};
  MambaNames mamba{};
  CrossAttentionNames cross_attention{};
  NextTokenNames next_token{};
  bool transposed = false;  // weights are stored as [in_features, out_features]
  // Each query head and key head has its own gain tensor, named q_norm or k_norm plus the head's number:
  // "norms.3".
  bool norm_tensor_per_head = false;
  // Projections of global tokens, if they are separate.
  std::string q_global{};
  std::string k_global{};
  std::string v_global{};
  std::string query_key_proj{};  // for attention whose queries are also its keys

  // All names except those of cross-attention. # stands for an expert's number.
  std::vector<std::string> layers() const;
};

// Calls visit(table, part...) for each table of tensors: with these parts of the blocks.
template <class Visit, class... Block>
void for_each_part(const Visit& visit, Block&... blocks) {
  visit(kMambaTensors, blocks.mamba...);
}

// The layers of a block in GGUF files, without the prefix "blk.N.". Families with the same parts use the same
// names. The matrices of all experts form a stack, which is named in `experts.parts`.
BlockNames gguf_block();

// The tensors of a family in GGUF files, and the changes that converters make to them.
struct GgufTensorNames {
  std::string embed_tokens = "token_embd";
  std::string embed_positions = "position_embd";
  std::string embedding_norm = "token_embd_norm";
  PerLayerInputNames per_layer_inputs = {"per_layer_token_embd", "per_layer_model_proj",
                                         "per_layer_proj_norm"};
  std::string final_norm = "output_norm";
  std::string lm_head = "output";
  BlockNames block = gguf_block();
  // The halves of a query or key head, which RoPE rotates together, are interleaved: row i of the first half,
  // then row i of the second half.
  bool interleaved_query_key = false;
  // The order of the gated delta net's value heads: the first one of each key head, then the second one of
  // each key head, and so on.
  bool tiled_value_heads = false;
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

// Whether `quantize` may store a block's matrix in a quantized type. `tensor`: its name in GGUF files.
bool may_be_quantized(std::string_view tensor);

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
  std::string final_norm;
  std::string lm_head;
  std::string lm_head_bias{};      // without ".bias"; empty: the name is lm_head
  std::string lm_head_bias_row{};  // alternative to lm_head_bias: a tensor [1, vocab_size], not a layer
  std::string head_dense{};        // before the LM head, followed by head_norm
  std::string head_norm{};
  std::string blocks;              // followed by a block's number
  bool blocks_have_prefix = true;  // false: names of blocks do not begin with `prefix`
  BlockNames (*names_of_block)(const std::string& prefix) = nullptr;
  std::vector<std::string> buffers = {"rotary_emb.inv_freq"};  // name endings of tensors without weights
  std::vector<std::string> ignored_layers{};    // not used, without `blocks`: "15.self_attn.k_proj"
  std::vector<std::size_t> ignored_blocks{};    // stored after the decoder's blocks, but not used
  std::vector<std::string> ignored_prefixes{};  // prefixes of multi-token prediction tensors
  std::vector<std::size_t> stored_blocks{};     // [layers]; empty: the layer's number
  std::string body{};                           // set by as_stored_in: prefix of all names outside the heads
  GgufTensorNames gguf{};
  bool uses_qkv_proj = false;  // the checkpoint stores BlockNames::qkv_proj

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
