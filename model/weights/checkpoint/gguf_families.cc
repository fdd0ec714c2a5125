#include "model/weights/checkpoint/gguf_families.h"

#include "model/weights/checkpoint/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include <fmt/ranges.h>

namespace tp {
namespace {

using nlohmann::json;

json named(const char* architecture) { return {{"architectures", {architecture}}}; }

// One architecture for Llama, Mistral and Mixtral, whose windows are not told.
json llama(const ModelMetadata& model) {
  if (!model.has("expert_count")) return named("LlamaForCausalLM");
  json config = named("MixtralForCausalLM");
  config["num_local_experts"] = model.whole("expert_count");
  config["num_experts_per_tok"] = model.whole("expert_used_count");
  return config;
}

json qwen2(const ModelMetadata&) { return named("Qwen2ForCausalLM"); }
json qwen3(const ModelMetadata&) { return named("Qwen3ForCausalLM"); }

json mixture_of_experts(const ModelMetadata& model) {
  return {{"num_experts", model.whole("expert_count")},
          {"num_experts_per_tok", model.whole("expert_used_count")},
          {"moe_intermediate_size", model.whole("expert_feed_forward_length")}};
}

json qwen2_moe(const ModelMetadata& model) {
  json config = named("Qwen2MoeForCausalLM");
  config.update(mixture_of_experts(model));
  config["shared_expert_intermediate_size"] = model.whole("expert_shared_feed_forward_length");
  config["norm_topk_prob"] = false;
  return config;
}

json qwen3_moe(const ModelMetadata& model) {
  json config = named("Qwen3MoeForCausalLM");
  config.update(mixture_of_experts(model));
  config["norm_topk_prob"] = true;
  return config;
}

json gemma(const ModelMetadata&) {
  json config = named("GemmaForCausalLM");
  config["hidden_act"] = "gelu_pytorch_tanh";
  return config;
}

// The file does not tell what attention scores are divided by. It is the square root of head_dim in the
// released models with heads of 256 elements (2B, 9B), and of hidden_size / num_attention_heads in the others
// (27B).
json gemma2(const ModelMetadata& model) {
  json config = gemma(model);
  config["architectures"] = {"Gemma2ForCausalLM"};
  config["query_pre_attn_scalar"] =
      model.head_dim() == 256 ? model.head_dim()
                              : model.whole("embedding_length") / std::max<std::uint64_t>(1, model.heads());
  config["attn_logit_softcapping"] = model.number("attn_logit_softcapping");
  config["final_logit_softcapping"] = model.number("final_logit_softcapping");
  config["sliding_window"] = model.whole("attention.sliding_window");
  return config;
}

// The part of a head that rotary positions turn.
double rotary_factor(const ModelMetadata& model) {
  const auto head_dim = static_cast<double>(std::max<std::uint64_t>(1, model.head_dim()));
  return static_cast<double>(model.whole_or("rope.dimension_count", model.head_dim())) / head_dim;
}

json phi3(const ModelMetadata& model) {
  json config = named("Phi3ForCausalLM");
  config["partial_rotary_factor"] = rotary_factor(model);
  config["original_max_position_embeddings"] =
      model.whole_or("rope.scaling.original_context_length", model.whole("context_length"));
  const std::uint64_t window = model.whole_or("attention.sliding_window", 0);
  config["sliding_window"] = window == 0 ? json(nullptr) : json(window);
  return config;
}

json gpt2(const ModelMetadata& model) {
  json config = named("GPT2LMHeadModel");
  config["layer_norm_eps"] = model.number("attention.layer_norm_epsilon");
  config["hidden_act"] = "gelu_new";
  return config;
}

json gpt_neox(const ModelMetadata& model) {
  json config = named("GPTNeoXForCausalLM");
  config["layer_norm_eps"] = model.number("attention.layer_norm_epsilon");
  config["partial_rotary_factor"] = rotary_factor(model);
  config["use_parallel_residual"] = model.boolean_or("use_parallel_residual", true);
  config["hidden_act"] = "gelu";
  return config;
}

// A block of the newer generation (40B, 180B) has two norms before it.
json falcon(const ModelMetadata& model) {
  const bool is_new = model.has_tensor("blk.0.attn_norm_2.weight");
  json config = named("FalconForCausalLM");
  config["layer_norm_eps"] = model.number("attention.layer_norm_epsilon");
  config["new_decoder_architecture"] = is_new;
  if (is_new) config["num_ln_in_parallel_attn"] = 2;
  config["parallel_attn"] = true;
  config["alibi"] = false;
  config["hidden_act"] = "gelu";
  return config;
}

// Of version 2 or 3, which differ in how experts are chosen: by a sigmoid (2 in the file) in version 3. Newer
// files describe heads of the compressed cache, and those of the model in keys that end in _mla.
json deepseek2(const ModelMetadata& model) {
  const bool is_v3 = model.whole_or("expert_gating_func", 1) == 2;
  const std::uint64_t groups = std::max<std::uint64_t>(1, model.whole_or("expert_group_count", 1));
  const std::uint64_t rotary = model.whole("rope.dimension_count");
  const std::uint64_t key = model.whole_or("attention.key_length_mla", model.head_dim());
  const std::uint64_t value =
      model.whole_or("attention.value_length_mla", model.whole_or("attention.value_length", key));
  if (key <= rotary) {
    throw_error<ConfigError>("{}: heads of {} elements have no room for {} rotary ones and others",
                             model.files().name(), key, rotary);
  }
  json config = named(is_v3 ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM");
  config["num_key_value_heads"] = model.heads();
  config["q_lora_rank"] =
      model.has("attention.q_lora_rank") ? json(model.whole("attention.q_lora_rank")) : json(nullptr);
  config["kv_lora_rank"] = model.whole("attention.kv_lora_rank");
  config["qk_rope_head_dim"] = rotary;
  config["qk_nope_head_dim"] = key - rotary;
  config["v_head_dim"] = value;
  config["n_routed_experts"] = model.whole_or("expert_count", 0);
  config["num_experts_per_tok"] = model.whole_or("expert_used_count", 0);
  config["n_shared_experts"] = model.whole_or("expert_shared_count", 0);
  config["moe_intermediate_size"] = model.whole("expert_feed_forward_length");
  config["moe_layer_freq"] = 1;
  config["first_k_dense_replace"] = model.whole_or("leading_dense_block_count", 0);
  config["routed_scaling_factor"] = model.number_or("expert_weights_scale", 1.0);
  config["norm_topk_prob"] = model.boolean_or("expert_weights_norm", false);
  config["scoring_func"] = is_v3 ? "sigmoid" : "softmax";
  config["topk_method"] = is_v3 ? "noaux_tc" : groups > 1 ? "group_limited_greedy" : "greedy";
  config["n_group"] = groups;
  config["topk_group"] = model.whole_or("expert_group_used_count", groups);
  return config;
}

using Family = std::function<json(const ModelMetadata&)>;

// By the names of GGUF's architectures, which are not those of Hugging Face.
const std::map<std::string, Family>& families() {
  static const std::map<std::string, Family> table = {
      {"deepseek2", deepseek2}, {"falcon", falcon},      {"gemma", gemma}, {"gemma2", gemma2},
      {"gpt2", gpt2},           {"gptneox", gpt_neox},   {"llama", llama}, {"phi3", phi3},
      {"qwen2", qwen2},         {"qwen2moe", qwen2_moe}, {"qwen3", qwen3}, {"qwen3moe", qwen3_moe},
  };
  return table;
}

}  // namespace

json gguf_family_config(const ModelMetadata& model) {
  const auto family = families().find(model.architecture());
  if (family == families().end()) {
    std::vector<std::string> known;
    for (const auto& [name, make] : families()) known.push_back(name);
    throw_error<ConfigError>("{}: GGUF models of the architecture {} are not supported; supported are {}",
                             model.files().name(), printable(model.architecture()), fmt::join(known, ", "));
  }
  return family->second(model);
}

}  // namespace tp
