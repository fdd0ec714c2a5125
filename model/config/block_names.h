// The names of a block's tensors, and the tables of all its parts.
#pragma once

#include "model/config/compressed_attention_part.h"
#include "model/config/delta_net_part.h"
#include "model/config/drafters/drafter_names.h"
#include "model/config/experts_part.h"
#include "model/config/latent_attention_part.h"
#include "model/config/layer_input_part.h"
#include "model/config/mamba1_part.h"
#include "model/config/mamba_part.h"
#include "model/config/next_token_part.h"
#include "model/config/residual_part.h"
#include "model/config/short_convolution_part.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

struct CrossAttentionNames {
  std::string norm;
  std::string q_proj;
  std::string k_proj;
  std::string v_proj;
  std::string o_proj;
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
  HashTableNames hash_table{};
  LaurelNames laurel{};
  AltUpNames altup{};
  HyperConnectionNames attention_connection{};
  HyperConnectionNames feed_forward_connection{};
  LowRankConnectionNames attention_low_rank{};
  LowRankConnectionNames feed_forward_low_rank{};
  DepthAttentionNames attention_residual{};
  DepthAttentionNames feed_forward_residual{};
  std::string output_scale{};         // a tensor, not a layer
  std::string canvas_output_scale{};  // like output_scale, for tokens of a canvas
  LatentAttentionNames latent_attention{};
  CompressedAttentionNames compressed_attention{};
  BlockIndexerNames block_indexer{};
  PooledIndexerNames pooled_indexer{};
  GatedDeltaNetNames delta_net{};
  ShortConvolutionNames short_convolution{};
  MambaNames mamba{};
  Mamba1Names mamba1{};
  Rwkv7Names rwkv7{};
  CrossAttentionNames cross_attention{};
  NextTokenNames next_token{};
  DrafterNames drafter{};
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

// Arrangements in GGUF files: rows of queries and keys, whose halves may be interleaved; rows of queries,
// keys and values in one tensor; matrices that the checkpoint may store transposed; gates and ups in one
// tensor.
GgufPlace gguf_rotated_rows(const GgufContext& context);
GgufPlace gguf_qkv_rows(const GgufContext& context);
GgufPlace gguf_matrix(const GgufContext& context);
GgufPlace halves_of_mlp(const GgufContext& context);

// Attention, the MLP, and the norms around them.
inline constexpr std::array kBlockTensors = std::to_array<PartTensor<BlockNames>>({
    {&BlockNames::input_norm, "input_layernorm", "attn_norm", gguf_norm, false},
    {&BlockNames::q_proj, "self_attn.q_proj", "attn_q", gguf_rotated_rows},
    {&BlockNames::k_proj, "self_attn.k_proj", "attn_k", gguf_rotated_rows},
    {&BlockNames::v_proj, "self_attn.v_proj", "attn_v", gguf_qkv_rows},
    {&BlockNames::qkv_proj, "", "attn_qkv", gguf_qkv_rows},
    {&BlockNames::q_norm, "self_attn.q_norm", "attn_q_norm", gguf_norm, false},
    {&BlockNames::k_norm, "self_attn.k_norm", "attn_k_norm", gguf_norm, false},
    {&BlockNames::sinks, "", "attn_sinks.weight"},
    {&BlockNames::attention_gate, "", "attn_gate"},
    {&BlockNames::o_proj, "self_attn.o_proj", "attn_output", gguf_matrix},
    {&BlockNames::post_attention_norm, "", "post_attention_norm", gguf_norm, false},
    {&BlockNames::pre_feed_forward_norm, "post_attention_layernorm", "ffn_norm", gguf_norm, false},
    {&BlockNames::gate_up_proj, "", "ffn_gate", halves_of_mlp},
    {&BlockNames::gate_proj, "mlp.gate_proj", "ffn_gate", gguf_matrix},
    {&BlockNames::up_proj, "mlp.up_proj", "ffn_up", gguf_matrix},
    {&BlockNames::down_proj, "mlp.down_proj", "ffn_down", gguf_matrix},
    {&BlockNames::post_feed_forward_norm, "", "post_ffw_norm", gguf_norm, false},
    {&BlockNames::mlp_norm, "", "post_ffw_norm_1", gguf_norm, false},
    {&BlockNames::experts_input_norm, "", "pre_ffw_norm_2", gguf_norm, false},
    {&BlockNames::experts_norm, "", "post_ffw_norm_2", gguf_norm, false},
    {&BlockNames::output_scale, "", "layer_output_scale.weight"},
    {&BlockNames::canvas_output_scale},
    {&BlockNames::query_key_proj},
});

// Calls visit(table, part...) for each table of tensors, with these parts of the blocks. Of tensors with one
// name in GGUF files, the last one counts.
template <class Visit, class... Block>
void for_each_part(const Visit& visit, Block&... blocks) {
  visit(kBlockTensors, blocks...);
  visit(kLayerInputTensors, blocks.layer_input...);
  visit(kHashTableTensors, blocks.hash_table...);
  visit(kLaurelTensors, blocks.laurel...);
  visit(kAltUpTensors, blocks.altup...);
  visit(kAttentionConnectionTensors, blocks.attention_connection...);
  visit(kFeedForwardConnectionTensors, blocks.feed_forward_connection...);
  visit(kAttentionLowRankTensors, blocks.attention_low_rank...);
  visit(kFeedForwardLowRankTensors, blocks.feed_forward_low_rank...);
  visit(kAttentionResidualTensors, blocks.attention_residual...);
  visit(kFeedForwardResidualTensors, blocks.feed_forward_residual...);
  visit(kLatentAttentionTensors, blocks.latent_attention...);
  visit(kIndexerTensors, blocks.latent_attention.indexer...);
  visit(kCompressedAttentionTensors, blocks.compressed_attention...);
  visit(kCompressorTensors, blocks.compressed_attention.compressor...);
  visit(kIndexCompressorTensors, blocks.compressed_attention.index_compressor...);
  visit(kBlockIndexerTensors, blocks.block_indexer...);
  visit(kPooledIndexerTensors, blocks.pooled_indexer...);
  visit(kNextTokenTensors, blocks.next_token...);
  visit(kDeltaNetTensors, blocks.delta_net...);
  visit(kShortConvolutionTensors, blocks.short_convolution...);
  visit(kMambaTensors, blocks.mamba...);
  visit(kMamba1Tensors, blocks.mamba1...);
  visit(kRwkv7Tensors, blocks.rwkv7...);
  visit(kExpertTensors, blocks.experts...);
  visit(kSharedExpertTensors, blocks.experts.shared_expert...);
}

// The layers of a block in GGUF files, without the prefix "blk.N.". Families with the same parts use the same
// names. The matrices of all experts form a stack, which is named in `experts.parts`.
BlockNames gguf_block();

// Whether `quantize` may store a matrix in a quantized type. `tensor`: its name in GGUF files.
bool may_be_quantized(std::string_view tensor);

}  // namespace tp
