#include "model/weights/checkpoint/gguf_names.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <span>

namespace tp {
namespace {

// Names of layers in a checkpoint and in a file, # for the number of a block. A second # is that of an
// expert, whose matrix is one of a stack.
using Names = std::map<std::string_view, std::string_view>;

const Names kLlama = {
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
};

const Names kMixtral = {
    {"model.layers.#.block_sparse_moe.gate", "blk.#.ffn_gate_inp"},
    {"model.layers.#.block_sparse_moe.experts.#.w1", "blk.#.ffn_gate_exps"},
    {"model.layers.#.block_sparse_moe.experts.#.w2", "blk.#.ffn_down_exps"},
    {"model.layers.#.block_sparse_moe.experts.#.w3", "blk.#.ffn_up_exps"},
};

const Names kQueryKeyNorms = {
    {"model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm"},
    {"model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm"},
};

// One layer for three, or for two.
const Names kFused = {
    {"model.layers.#.self_attn.qkv_proj", "blk.#.attn_qkv"},
    {"model.layers.#.mlp.gate_up_proj", "blk.#.ffn_up"},
};

const Names kGemma2Norms = {
    {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"model.layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm"},
    {"model.layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"},
};

const Names kExperts = {
    {"model.layers.#.mlp.gate", "blk.#.ffn_gate_inp"},
    {"model.layers.#.mlp.experts.#.gate_proj", "blk.#.ffn_gate_exps"},
    {"model.layers.#.mlp.experts.#.up_proj", "blk.#.ffn_up_exps"},
    {"model.layers.#.mlp.experts.#.down_proj", "blk.#.ffn_down_exps"},
};

const Names kSharedExpert = {
    {"model.layers.#.mlp.shared_expert_gate", "blk.#.ffn_gate_inp_shexp"},
    {"model.layers.#.mlp.shared_expert.gate_proj", "blk.#.ffn_gate_shexp"},
    {"model.layers.#.mlp.shared_expert.up_proj", "blk.#.ffn_up_shexp"},
    {"model.layers.#.mlp.shared_expert.down_proj", "blk.#.ffn_down_shexp"},
};

const Names kDeepSeek = {
    {"model.layers.#.mlp.shared_experts.gate_proj", "blk.#.ffn_gate_shexp"},
    {"model.layers.#.mlp.shared_experts.up_proj", "blk.#.ffn_up_shexp"},
    {"model.layers.#.mlp.shared_experts.down_proj", "blk.#.ffn_down_shexp"},
    {"model.layers.#.self_attn.q_a_proj", "blk.#.attn_q_a"},
    {"model.layers.#.self_attn.q_a_layernorm", "blk.#.attn_q_a_norm"},
    {"model.layers.#.self_attn.q_b_proj", "blk.#.attn_q_b"},
    {"model.layers.#.self_attn.kv_a_proj_with_mqa", "blk.#.attn_kv_a_mqa"},
    {"model.layers.#.self_attn.kv_a_layernorm", "blk.#.attn_kv_a_norm"},
    {"model.layers.#.self_attn.kv_b_proj", "blk.#.attn_kv_b"},
};

// The one tensor that is neither a weight nor a bias in the checkpoint.
constexpr std::string_view kCorrection = "model.layers.#.mlp.gate.e_score_correction_bias";
constexpr std::string_view kStoredCorrection = "blk.#.exp_probs_b.bias";

const Names kGpt2 = {
    {"transformer.wte", "token_embd"},
    {"transformer.wpe", "position_embd"},
    {"transformer.ln_f", "output_norm"},
    {"lm_head", "output"},
    {"transformer.h.#.ln_1", "blk.#.attn_norm"},
    {"transformer.h.#.attn.c_attn", "blk.#.attn_qkv"},
    {"transformer.h.#.attn.c_proj", "blk.#.attn_output"},
    {"transformer.h.#.ln_2", "blk.#.ffn_norm"},
    {"transformer.h.#.mlp.c_fc", "blk.#.ffn_up"},
    {"transformer.h.#.mlp.c_proj", "blk.#.ffn_down"},
};

const Names kGptNeox = {
    {"gpt_neox.embed_in", "token_embd"},
    {"gpt_neox.final_layer_norm", "output_norm"},
    {"embed_out", "output"},
    {"gpt_neox.layers.#.input_layernorm", "blk.#.attn_norm"},
    {"gpt_neox.layers.#.attention.query_key_value", "blk.#.attn_qkv"},
    {"gpt_neox.layers.#.attention.dense", "blk.#.attn_output"},
    {"gpt_neox.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"gpt_neox.layers.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
    {"gpt_neox.layers.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
};

const Names kFalcon = {
    {"transformer.word_embeddings", "token_embd"},
    {"transformer.ln_f", "output_norm"},
    {"lm_head", "output"},
    {"transformer.h.#.input_layernorm", "blk.#.attn_norm"},
    {"transformer.h.#.self_attention.query_key_value", "blk.#.attn_qkv"},
    {"transformer.h.#.self_attention.dense", "blk.#.attn_output"},
    {"transformer.h.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
    {"transformer.h.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
};

// In place of input_layernorm.
const Names kFalconTwoNorms = {
    {"transformer.h.#.ln_mlp", "blk.#.attn_norm"},
    {"transformer.h.#.ln_attn", "blk.#.attn_norm_2"},
};

// Later tables win. An architecture that is not known has Llama's names; its config is refused.
Names names_of(std::string_view architecture, bool has_two_norms) {
  const auto joined = [](std::initializer_list<Names> tables) {
    Names all;
    for (const Names& table : tables) {
      for (const auto& [name, stored] : table) all[name] = stored;
    }
    return all;
  };
  if (architecture == "llama") return joined({kLlama, kMixtral});
  if (architecture == "qwen3") return joined({kLlama, kQueryKeyNorms});
  if (architecture == "qwen2moe") return joined({kLlama, kExperts, kSharedExpert});
  if (architecture == "qwen3moe") return joined({kLlama, kQueryKeyNorms, kExperts});
  if (architecture == "gemma2") return joined({kLlama, kGemma2Norms});
  if (architecture == "deepseek2") return joined({kLlama, kExperts, kDeepSeek});
  if (architecture == "gpt2") return kGpt2;
  if (architecture == "gptneox") return kGptNeox;
  if (architecture == "phi3") {
    Names names = joined({kLlama, kFused});
    names.erase("model.layers.#.mlp.up_proj");
    return names;
  }
  if (architecture == "falcon") {
    Names names = has_two_norms ? joined({kFalcon, kFalconTwoNorms}) : kFalcon;
    if (has_two_norms) names.erase("transformer.h.#.input_layernorm");
    return names;
  }
  return kLlama;
}

// What the name of a block's tensor begins with, up to the block's number.
std::string_view blocks_of(std::string_view architecture) {
  if (architecture == "gptneox") return "gpt_neox.layers.";
  return architecture == "gpt2" || architecture == "falcon" ? "transformer.h." : "model.layers.";
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

// The name with its first marks replaced by the numbers.
std::string with_numbers(std::string_view name, std::span<const std::size_t> numbers) {
  std::string result(name);
  for (const std::size_t number : numbers) {
    const std::size_t mark = result.find('#');
    if (mark == result.npos) break;
    result.replace(mark, 1, std::to_string(number));
  }
  return result;
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

GgufNames::GgufNames(const GgufMetadata& metadata, bool has_two_norms)
    : architecture_(metadata.text("general.architecture")), names_(names_of(architecture_, has_two_norms)) {
  for (const auto& [name, stored] : names_) checkpoint_names_[stored] = name;
  const std::string attention = architecture_ + ".attention.";
  const std::size_t heads = std::max<std::size_t>(1, metadata.whole(attention + "head_count"));
  kv_heads_ = std::max<std::size_t>(1, metadata.whole_or(attention + "head_count_kv", heads));
  queries_per_kv_ = heads / kv_heads_;
  head_dim_ = metadata.whole_or(attention + "key_length",
                                metadata.whole(architecture_ + ".embedding_length") / heads);
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
  const std::size_t dot = std::min(name.rfind('.'), name.size());
  const std::string_view layer = name.substr(0, dot);
  const std::string_view end = name.substr(dot);  // ".weight" or ".bias"

  const Pattern pattern = pattern_of(layer);
  GgufPlace place;
  if (pattern.text + std::string(end) == kCorrection) {
    place.tensor = with_numbers(kStoredCorrection, pattern.numbers);
    return place;
  }
  const auto stored = names_.find(pattern.text);
  if (stored == names_.end()) return std::nullopt;
  place.tensor = with_numbers(stored->second, pattern.numbers).append(end);
  if (pattern.numbers.size() > 1) place.expert = pattern.numbers[1];
  add_arrangement(layer, place);
  return place;
}

std::vector<std::string> GgufNames::in_checkpoint(const GgufTensor& tensor) const {
  // These are part of the config.
  if (tensor.name == "rope_freqs.weight" || tensor.name.starts_with("rope_factors_")) return {};
  const std::size_t dot = std::min(tensor.name.rfind('.'), tensor.name.size());
  const std::string end = tensor.name.substr(dot);
  Pattern pattern = pattern_of(std::string_view(tensor.name).substr(0, dot));
  if (pattern.text + end == kStoredCorrection) return {with_numbers(kCorrection, pattern.numbers)};
  // What is left of kv_b where it is in two stacks.
  if (pattern.text == "blk.#.attn_k_b" || pattern.text == "blk.#.attn_v_b") pattern.text = "blk.#.attn_kv_b";
  const auto name = checkpoint_names_.find(pattern.text);
  if (name == checkpoint_names_.end()) {
    constexpr std::string_view blocks = "blk.";
    if (!tensor.name.starts_with(blocks)) return {tensor.name};
    return {std::string(blocks_of(architecture_)) + tensor.name.substr(blocks.size())};
  }
  const bool is_stack = std::count(name->second.begin(), name->second.end(), '#') > 1;
  std::vector<std::string> result;
  for (std::size_t expert = 0; expert < (is_stack ? tensor.shape.front() : 1); ++expert) {
    std::vector<std::size_t> numbers = pattern.numbers;
    numbers.push_back(expert);
    result.push_back(with_numbers(name->second, numbers) + end);
  }
  return result;
}

}  // namespace tp
