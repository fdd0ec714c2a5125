// What a family's tensors are called in Hugging Face checkpoints and in GGUF files, and what is stored
// together. The names themselves are in model/config/families; those that GGUF files have in common are here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tp {

class WeightSource;

struct GatedMlpNames {
  std::string gate_proj;
  std::string up_proj;
  std::string down_proj;
};

// Tensors with one matrix for each expert, [experts, out_features, in_features], and biases, [experts,
// out_features].
struct ExpertStackNames {
  std::string gate_up_proj;  // with twice as many rows as an expert is wide
  std::string gate_up_bias;
  std::string down_proj;
  std::string down_bias;
  bool transposed = false;  // matrices are stored as [in_features, out_features]
  bool alternating =
      false;  // a row of gate_proj, then one of up_proj, and so on; else all of gate_proj first
};

struct ExpertNames {
  std::string router;
  std::string correction_bias;  // a tensor, not a layer
  GatedMlpNames shared_expert;
  std::string shared_expert_gate;
  std::string experts;  // an expert's index follows, and
  GatedMlpNames parts;  // one of these
  // Tensors that hold all experts together; empty: those of all_experts().
  ExpertStackNames stacks{};

  GatedMlpNames expert(std::size_t index) const;
  // `stacks`, or else the names that transformers 5 gives them: "experts.gate_up_proj", "experts.down_proj".
  ExpertStackNames all_experts() const;
};

struct LatentAttentionNames {
  std::string q_proj;  // without q_lora_rank
  std::string q_a_proj;
  std::string q_a_norm;
  std::string q_b_proj;
  std::string kv_a_proj;
  std::string kv_a_norm;
  std::string kv_b_proj;
  std::string o_proj;
};

struct CrossAttentionNames {
  std::string norm;
  std::string q_proj;
  std::string k_proj;
  std::string v_proj;
  std::string o_proj;
};

struct GatedDeltaNetNames {
  // Queries, keys, values and gates of all heads, a key head's following each other; or in two tensors, the
  // first with all queries, then all keys, then all values, the second with the gates.
  std::string in_proj_qkvz;
  std::string in_proj_qkv;
  std::string in_proj_z;
  // Strengths and decays, a key head's following each other; or in two tensors.
  std::string in_proj_ba;
  std::string in_proj_b;
  std::string in_proj_a;
  std::string conv;
  std::string decay;       // a tensor, not a layer
  std::string decay_bias;  // a tensor, not a layer
  std::string norm;
  std::string out_proj;
};

struct ShortConvolutionNames {
  std::string in_proj;  // the gate before, the gate after and the value below each other
  std::string conv;
  std::string out_proj;
};

// What a layer that predicts the token after the next one has beside its block.
struct NextTokenNames {
  std::string projection;
  std::string embedding_norm;
  std::string state_norm;
  std::string final_norm;
  // Where they are not stored, those of the model.
  std::string embed_tokens{};
  std::string lm_head{};
};

// The tensors of one block, without ".weight" and ".bias". Those that a family does not have are empty, and
// projections of the same name are stored as one.
struct BlockNames {
  // How queries, keys and values lie in one tensor: below each other, or for every KV head its queries, its
  // key and its value.
  enum class FusedQkv : std::uint8_t { stacked, by_kv_head };

  std::string input_norm;
  std::string q_proj;
  std::string k_proj;
  std::string v_proj;
  FusedQkv fused_qkv = FusedQkv::stacked;
  // Stands for the three of them where a file has them as one, though others of the family do not.
  std::string qkv_proj{};
  std::string q_norm;
  std::string k_norm;
  std::string sinks;  // a tensor, not a layer
  // Gates of what attention gives; empty: they are stored behind the queries of their heads.
  std::string attention_gate{};
  std::string o_proj;
  std::string post_attention_norm;
  std::string pre_feed_forward_norm;
  std::string gate_proj;
  std::string up_proj;
  std::string down_proj;
  std::string activation{};  // what the names of an activation's parameters follow
  std::string post_feed_forward_norm;
  ExpertNames experts{};
  LatentAttentionNames latent_attention{};
  GatedDeltaNetNames delta_net{};
  ShortConvolutionNames short_convolution{};
  CrossAttentionNames cross_attention{};
  NextTokenNames next_token{};
  bool transposed = false;  // weights are stored as [in_features, out_features]
  // The gain of every query and key head is a tensor of its own, whose name follows q_norm or k_norm:
  // "norms.3".
  bool norm_tensor_per_head = false;
  // Of global tokens, where these have projections of their own.
  std::string q_global{};
  std::string k_global{};
  std::string v_global{};
  std::string query_key_proj{};  // of attention whose queries are keys, too

  // All names of layers except those of cross-attention. # stands for the number of an expert.
  std::vector<std::string> layers() const;
};

// The layers of a block in GGUF files, whose names follow "blk.N.". They are the same for all families that
// store the same parts. An expert's matrix is one of a stack that has the name in `experts.parts`.
BlockNames gguf_block();

// The tensors of a family in GGUF files, and what the converters did to them.
struct GgufTensorNames {
  std::string embed_tokens = "token_embd";
  std::string embed_positions = "position_embd";
  std::string embedding_norm = "token_embd_norm";
  std::string final_norm = "output_norm";
  std::string lm_head = "output";
  BlockNames block = gguf_block();
  // The two halves of a query or key head, which RoPE rotates against each other, are interleaved: row i of
  // the first, row i of the second.
  bool interleaved_query_key = false;
  // The file has the gated delta net's value heads ordered by their place in their key heads' groups: all
  // first ones, all second ones, and so on.
  bool tiled_value_heads = false;
  float norm_offset = 0.0F;       // was added to the gains of norms
  bool offset_final_norm = true;  // and to those of the last one
  // Norms of queries and keys that have no gains have some in the file: what the scale of scores is a
  // multiple of the usual one by, and ones.
  bool query_norm_is_scale = false;
};

// The tensors of a family.
struct TensorNames {
  std::string prefix;  // of all but the LM head; what was saved without a head has none
  // Of all, in front of `prefix`, where the model is a part of a larger one; newer checkpoints have
  // "model." and this instead of both, and the LM head without either.
  std::string part_prefix{};
  std::string embed_tokens;
  std::string embed_positions;
  std::string axial_positions{};  // what the number of one of the two tables follows
  std::string token_types{};
  std::string embedding_norm{};
  std::string embedding_projection{};
  std::string relative_bias{};
  std::string final_norm;
  std::string lm_head;
  std::string lm_head_bias{};      // without ".bias"; empty: as lm_head
  std::string lm_head_bias_row{};  // instead of it: a tensor [1, vocab_size], not a layer
  std::string head_dense{};        // in front of the LM head, and the norm behind it
  std::string head_norm{};
  std::string blocks;              // what the number of a block follows
  bool blocks_have_prefix = true;  // else they are stored beside the model, and `prefix` is not theirs
  BlockNames (*names_of_block)(const std::string& prefix) = nullptr;
  std::vector<std::string> buffers = {"rotary_emb.inv_freq"};  // how names end that hold no weights
  std::vector<std::size_t> ignored_blocks{};                   // stored beside those of the decoder
  std::vector<std::string> ignored_prefixes{};  // of tensors that predict more tokens at a time
  std::vector<std::size_t> stored_blocks{};  // of every layer, where several share one; empty: its own number
  std::string body{};                        // as_stored_in: the prefix of all that no head has
  GgufTensorNames gguf{};
  bool uses_qkv_proj = false;  // BlockNames::qkv_proj is what is stored

  // The number of a layer's block.
  std::size_t stored_block(std::size_t layer) const {
    return stored_blocks.empty() ? layer : stored_blocks[layer];
  }
  BlockNames block(std::size_t layer) const;

  // With those prefixes in front of every name that the tensors of `source` have.
  TensorNames as_stored_in(const WeightSource& source) const;
  // Of these: with the embedding, norm and head of the layer that predicts the token after the next one, as
  // far as `source` has them.
  TensorNames of_next_token_layer(const WeightSource& source) const;
};

namespace tensor_names {

// The names above are of layers; these are of what a layer holds.
std::string weight_of(const std::string& layer);
std::string bias_of(const std::string& layer);

}  // namespace tensor_names
}  // namespace tp
