#include "model/checkpoint/gguf_names.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

// Names of layers, # for the number of a block. A second # is that of an expert, whose matrix is one of a
// stack.
using Names = std::map<std::string_view, std::string_view>;

// Llama's names, and what other families call the same thing or have besides.
const Names& common_names() {
  static const Names names = {
      {"model.embed_tokens", "token_embd"},
      {"model.norm", "output_norm"},
      {"lm_head", "output"},
      {"model.layers.#.input_layernorm", "blk.#.attn_norm"},
      {"model.layers.#.self_attn.q_proj", "blk.#.attn_q"},
      {"model.layers.#.self_attn.k_proj", "blk.#.attn_k"},
      {"model.layers.#.self_attn.v_proj", "blk.#.attn_v"},
      {"model.layers.#.self_attn.o_proj", "blk.#.attn_output"},
      {"model.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
      {"model.layers.#.mlp.gate_proj", "blk.#.ffn_gate"},
      {"model.layers.#.mlp.up_proj", "blk.#.ffn_up"},
      {"model.layers.#.mlp.down_proj", "blk.#.ffn_down"},
      // Qwen 3
      {"model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm"},
      {"model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm"},
      // Phi 3
      {"model.layers.#.self_attn.qkv_proj", "blk.#.attn_qkv"},
      {"model.layers.#.mlp.gate_up_proj", "blk.#.ffn_up"},
      // Gemma 2
      {"model.layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm"},
      {"model.layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"},
      // Mixtral
      {"model.layers.#.block_sparse_moe.gate", "blk.#.ffn_gate_inp"},
      {"model.layers.#.block_sparse_moe.experts.#.w1", "blk.#.ffn_gate_exps"},
      {"model.layers.#.block_sparse_moe.experts.#.w2", "blk.#.ffn_down_exps"},
      {"model.layers.#.block_sparse_moe.experts.#.w3", "blk.#.ffn_up_exps"},
      // Qwen's mixtures of experts, DeepSeek
      {"model.layers.#.mlp.gate", "blk.#.ffn_gate_inp"},
      {"model.layers.#.mlp.experts.#.gate_proj", "blk.#.ffn_gate_exps"},
      {"model.layers.#.mlp.experts.#.up_proj", "blk.#.ffn_up_exps"},
      {"model.layers.#.mlp.experts.#.down_proj", "blk.#.ffn_down_exps"},
      {"model.layers.#.mlp.shared_expert_gate", "blk.#.ffn_gate_inp_shexp"},
      {"model.layers.#.mlp.shared_expert.gate_proj", "blk.#.ffn_gate_shexp"},
      {"model.layers.#.mlp.shared_expert.up_proj", "blk.#.ffn_up_shexp"},
      {"model.layers.#.mlp.shared_expert.down_proj", "blk.#.ffn_down_shexp"},
      {"model.layers.#.mlp.shared_experts.gate_proj", "blk.#.ffn_gate_shexp"},
      {"model.layers.#.mlp.shared_experts.up_proj", "blk.#.ffn_up_shexp"},
      {"model.layers.#.mlp.shared_experts.down_proj", "blk.#.ffn_down_shexp"},
      {"model.layers.#.self_attn.q_a_proj", "blk.#.attn_q_a"},
      {"model.layers.#.self_attn.q_a_layernorm", "blk.#.attn_q_a_norm"},
      {"model.layers.#.self_attn.q_b_proj", "blk.#.attn_q_b"},
      {"model.layers.#.self_attn.kv_a_proj_with_mqa", "blk.#.attn_kv_a_mqa"},
      {"model.layers.#.self_attn.kv_a_layernorm", "blk.#.attn_kv_a_norm"},
      {"model.layers.#.self_attn.kv_b_proj", "blk.#.attn_kv_b"},
      // GPT-2
      {"transformer.wte", "token_embd"},
      {"transformer.wpe", "position_embd"},
      {"transformer.ln_f", "output_norm"},
      {"transformer.h.#.ln_1", "blk.#.attn_norm"},
      {"transformer.h.#.attn.c_attn", "blk.#.attn_qkv"},
      {"transformer.h.#.attn.c_proj", "blk.#.attn_output"},
      {"transformer.h.#.ln_2", "blk.#.ffn_norm"},
      {"transformer.h.#.mlp.c_fc", "blk.#.ffn_up"},
      {"transformer.h.#.mlp.c_proj", "blk.#.ffn_down"},
      // GPT-NeoX
      {"gpt_neox.embed_in", "token_embd"},
      {"gpt_neox.final_layer_norm", "output_norm"},
      {"embed_out", "output"},
      {"gpt_neox.layers.#.input_layernorm", "blk.#.attn_norm"},
      {"gpt_neox.layers.#.attention.query_key_value", "blk.#.attn_qkv"},
      {"gpt_neox.layers.#.attention.dense", "blk.#.attn_output"},
      {"gpt_neox.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
      {"gpt_neox.layers.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
      {"gpt_neox.layers.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
      // Falcon, with one norm before a block or two
      {"transformer.word_embeddings", "token_embd"},
      {"transformer.h.#.input_layernorm", "blk.#.attn_norm"},
      {"transformer.h.#.ln_mlp", "blk.#.attn_norm"},
      {"transformer.h.#.ln_attn", "blk.#.attn_norm_2"},
      {"transformer.h.#.self_attention.query_key_value", "blk.#.attn_qkv"},
      {"transformer.h.#.self_attention.dense", "blk.#.attn_output"},
      {"transformer.h.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
      {"transformer.h.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
  };
  return names;
}

// A name with its numbers taken out: "model.layers.#.mlp.experts.#.up_proj" and {3, 17}.
struct Pattern {
  std::string text;
  std::vector<std::size_t> numbers;
};

Pattern pattern_of(std::string_view name) {
  Pattern pattern;
  while (true) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const std::string_view word = name.substr(0, dot);
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (!word.empty() && error == std::errc() && end == word.data() + word.size()) {
      pattern.numbers.push_back(number);
      pattern.text += '#';
    } else {
      pattern.text += word;
    }
    if (dot == name.size()) return pattern;
    pattern.text += '.';
    name.remove_prefix(dot + 1);
  }
}

std::string with_number(std::string_view name, const std::vector<std::size_t>& numbers) {
  const std::size_t mark = name.find('#');
  if (mark == name.npos) return std::string(name);
  return fmt::format("{}{}{}", name.substr(0, mark), numbers.front(), name.substr(mark + 1));
}

}  // namespace

bool GgufRowOrder::fits(std::size_t rows) const {
  if (kind == Kind::as_it_was) return true;
  const bool has_whole_heads = head_dim != 0 && rows % head_dim == 0;
  if (kind == Kind::pairs) return has_whole_heads && head_dim % 2 == 0;
  return has_whole_heads && rows / head_dim == groups * (queries_per_group + 2);
}

std::size_t GgufRowOrder::stored_row(std::size_t row) const {
  switch (kind) {
    case Kind::as_it_was:
      return row;
    case Kind::pairs: {
      const std::size_t half = head_dim / 2;
      return row / head_dim * head_dim + row % half * 2 + row % head_dim / half;
    }
    case Kind::by_kind: {
      const std::size_t group = row / head_dim / (queries_per_group + 2);
      const std::size_t head = row / head_dim % (queries_per_group + 2);
      const std::size_t stored_head = head < queries_per_group
                                          ? group * queries_per_group + head
                                          : groups * head + group;  // head: queries_per_group, or one more
      return stored_head * head_dim + row % head_dim;
    }
  }
  return row;
}

GgufNames::GgufNames(const GgufMetadata& metadata) : architecture_(metadata.text("general.architecture")) {
  const std::string attention = architecture_ + ".attention.";
  const std::size_t heads = std::max<std::size_t>(1, metadata.whole(attention + "head_count"));
  kv_heads_ = std::max<std::size_t>(1, metadata.whole_or(attention + "head_count_kv", heads));
  queries_per_kv_ = heads / kv_heads_;
  head_dim_ = metadata.whole_or(attention + "key_length",
                                metadata.whole(architecture_ + ".embedding_length") / heads);
}

std::string_view GgufNames::stored_name(std::string_view pattern) const {
  // Gemma 2 has a norm of that name behind attention, and others have one before the feed-forward half.
  if (architecture_ == "gemma2" && pattern == "model.layers.#.post_attention_layernorm")
    return "blk.#.post_attention_norm";
  const auto found = common_names().find(pattern);
  return found == common_names().end() ? "" : found->second;
}

// What the converter has done to a tensor.
void GgufNames::add_arrangement(std::string_view layer, GgufPlace& place) const {
  const bool is_fused = layer.ends_with(".query_key_value");
  if (architecture_ == "llama" && (layer.ends_with(".q_proj") || layer.ends_with(".k_proj")))
    place.rows = {GgufRowOrder::Kind::pairs, head_dim_};
  if ((architecture_ == "gptneox" || architecture_ == "falcon") && is_fused)
    place.rows = {GgufRowOrder::Kind::by_kind, head_dim_, kv_heads_, queries_per_kv_};
  if (architecture_ == "gpt2" && layer.find(".c_") != layer.npos && place.tensor.ends_with(".weight"))
    place.is_transposed = true;
  // Gemma's norms multiply by 1 + weight, and the 1 is in the file.
  if (architecture_.starts_with("gemma") && layer.ends_with("norm")) place.addend = -1.0F;
}

std::optional<GgufPlace> GgufNames::find(std::string_view name) const {
  // The one tensor that is neither a weight nor a bias in the checkpoint.
  constexpr std::string_view correction = ".mlp.gate.e_score_correction_bias";
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return std::nullopt;
  const std::string_view layer = name.substr(0, dot);
  const std::string_view end = name.substr(dot);  // ".weight" or ".bias"

  const Pattern pattern = pattern_of(layer);
  GgufPlace place;
  if (name.ends_with(correction)) {
    place.tensor = with_number("blk.#.exp_probs_b.bias", pattern.numbers);
    return place;
  }
  const std::string_view stored = stored_name(pattern.text);
  if (stored.empty()) return std::nullopt;
  place.tensor = with_number(stored, pattern.numbers).append(end);
  if (pattern.numbers.size() > 1) place.expert = pattern.numbers[1];
  add_arrangement(layer, place);
  return place;
}

}  // namespace tp
