#include "model/config/tensor_names.h"

#include "model/weights/source/weight_source.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {

GatedMlpNames ExpertNames::expert(std::size_t index) const {
  const std::string prefix = fmt::format("{}{}.", experts, index);
  return {prefix + parts.gate_proj, prefix + parts.up_proj, prefix + parts.down_proj};
}

ExpertStackNames ExpertNames::all_experts() const {
  if (!stacks.gate_up_proj.empty() || experts.empty()) return stacks;
  return {.gate_up_proj = experts + "gate_up_proj",
          .gate_up_bias = {},
          .down_proj = experts + "down_proj",
          .down_bias = {}};
}

std::vector<std::string> BlockNames::layers() const {
  const GatedMlpNames& shared = experts.shared_expert;
  const ExpertStackNames stacks = experts.all_experts();
  const LatentAttentionNames& latent = latent_attention;
  std::vector<std::string> all = {input_norm,
                                  q_proj,
                                  k_proj,
                                  v_proj,
                                  qkv_proj,
                                  q_norm,
                                  k_norm,
                                  sinks,
                                  attention_gate,
                                  o_proj,
                                  post_attention_norm,
                                  pre_feed_forward_norm,
                                  gate_proj,
                                  up_proj,
                                  down_proj,
                                  gate_up_proj,
                                  post_feed_forward_norm,
                                  query_key_proj,
                                  experts.router,
                                  experts.correction_bias,
                                  experts.router_scale,
                                  experts.per_expert_scale,
                                  experts.latent_down,
                                  experts.latent_up,
                                  mlp_norm,
                                  experts_input_norm,
                                  experts_norm,
                                  layer_input.gate,
                                  layer_input.projection,
                                  layer_input.norm,
                                  output_scale,
                                  shared.gate_proj,
                                  shared.up_proj,
                                  shared.down_proj,
                                  shared.gate_up_proj,
                                  experts.shared_expert_gate,
                                  stacks.gate_up_proj,
                                  stacks.down_proj,
                                  latent.q_proj,
                                  latent.q_a_proj,
                                  latent.q_a_norm,
                                  latent.q_b_proj,
                                  latent.kv_a_proj,
                                  latent.kv_a_norm,
                                  latent.kv_b_proj,
                                  latent.o_proj,
                                  latent.indexer.q_b_proj,
                                  latent.indexer.k_proj,
                                  latent.indexer.k_norm,
                                  latent.indexer.weights_proj,
                                  delta_net.in_proj_qkvz,
                                  delta_net.in_proj_qkv,
                                  delta_net.in_proj_z,
                                  delta_net.in_proj_ba,
                                  delta_net.in_proj_b,
                                  delta_net.in_proj_a,
                                  delta_net.conv,
                                  delta_net.q_proj,
                                  delta_net.k_proj,
                                  delta_net.v_proj,
                                  delta_net.q_conv,
                                  delta_net.k_conv,
                                  delta_net.v_conv,
                                  delta_net.decay_down,
                                  delta_net.decay_up,
                                  delta_net.gate_down,
                                  delta_net.gate_up,
                                  delta_net.decay,
                                  delta_net.decay_bias,
                                  delta_net.norm,
                                  delta_net.out_proj,
                                  short_convolution.in_proj,
                                  short_convolution.conv,
                                  short_convolution.out_proj};
  for_each_part(
      [&](const auto& table, const auto& part) {
        for (const auto& tensor : table) all.push_back(part.*tensor.name);
      },
      *this);
  for (const std::string& part : {experts.parts.gate_proj, experts.parts.up_proj, experts.parts.down_proj})
    all.push_back(experts.experts + "#." + part);
  const std::string end = ".weight";  // stacks are tensors, whose names include it
  for (std::string& name : all) {
    if (name.ends_with(end)) name.erase(name.size() - end.size());
  }
  return all;
}

BlockNames TensorNames::block(std::size_t layer) const {
  BlockNames names = names_of_block(fmt::format("{}{}.", blocks, stored_block(layer)));
  if (uses_qkv_proj) names.q_proj = names.k_proj = names.v_proj = names.qkv_proj;
  return names;
}

TensorNames TensorNames::as_stored_in(const WeightSource& source) const {
  const auto has = [&](const std::string& layer) { return source.contains(tensor_names::weight_of(layer)); };
  struct Prefixes {
    std::string body;
    std::string head;
  };
  std::vector<Prefixes> all = {{part_prefix + prefix, part_prefix}};
  if (!part_prefix.empty()) {
    all.push_back({"model." + part_prefix, ""});
    all.push_back({prefix, ""});
  }
  all.push_back({"", ""});
  // A tied embedding may be stored as the LM head only; the final norm then shows the prefix.
  const auto found = std::ranges::find_if(all, [&](const Prefixes& prefixes) {
    return has(prefixes.body + embed_tokens) || has(prefixes.body + final_norm);
  });
  const Prefixes& used = found == all.end() ? all.front() : *found;
  TensorNames names = *this;
  names.prefix.clear();
  names.part_prefix.clear();
  names.body = used.body;
  for (std::string* name :
       {&names.embed_tokens, &names.embed_positions, &names.axial_positions, &names.token_types,
        &names.embedding_norm, &names.embedding_projection, &names.relative_bias,
        &names.per_layer_inputs.embed_tokens, &names.per_layer_inputs.projection,
        &names.per_layer_inputs.norm, &names.final_norm}) {
    if (!name->empty()) *name = used.body + *name;
  }
  if (blocks_have_prefix && !blocks.empty()) names.blocks = used.body + blocks;
  names.lm_head = used.head + lm_head;
  const std::string qkv_proj = names.block(0).qkv_proj;
  names.uses_qkv_proj = !qkv_proj.empty() && has(qkv_proj);
  return names;
}

TensorNames TensorNames::of_next_token_layer(const WeightSource& source) const {
  const NextTokenNames own = block(0).next_token;
  const auto has = [&](const std::string& layer) {
    return !layer.empty() && source.contains(tensor_names::weight_of(layer));
  };
  TensorNames names = *this;
  names.final_norm = own.final_norm;
  if (has(own.embed_tokens)) names.embed_tokens = own.embed_tokens;
  if (has(own.lm_head)) names.lm_head = own.lm_head;
  return names;
}

BlockNames gguf_block() {
  BlockNames names = {.input_norm = "attn_norm",
                      .q_proj = "attn_q",
                      .k_proj = "attn_k",
                      .v_proj = "attn_v",
                      .qkv_proj = "attn_qkv",
                      .q_norm = "attn_q_norm",
                      .k_norm = "attn_k_norm",
                      .sinks = "attn_sinks.weight",
                      .attention_gate = "attn_gate",
                      .o_proj = "attn_output",
                      .post_attention_norm = "post_attention_norm",
                      .pre_feed_forward_norm = "ffn_norm",
                      .gate_proj = "ffn_gate",
                      .up_proj = "ffn_up",
                      .down_proj = "ffn_down",
                      .activation = "xielu.",
                      .post_feed_forward_norm = "post_ffw_norm",
                      .experts = {.router = "ffn_gate_inp",
                                  .correction_bias = "exp_probs_b.bias",
                                  .router_scale = "ffn_gate_inp.scale",
                                  .per_expert_scale = "ffn_down_exps.scale",
                                  .latent_down = "ffn_latent_down",
                                  .latent_up = "ffn_latent_up",
                                  .shared_expert = {"ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"},
                                  .shared_expert_gate = "ffn_gate_inp_shexp",
                                  .experts = {},
                                  .parts = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"},
                                  .stacks = {.gate_up_proj = "ffn_gate_up_exps.weight",
                                             .gate_up_bias = {},
                                             .down_proj = "ffn_down_exps.weight",
                                             .down_bias = {}}},
                      .mlp_norm = "post_ffw_norm_1",
                      .experts_input_norm = "pre_ffw_norm_2",
                      .experts_norm = "post_ffw_norm_2",
                      .layer_input = {.gate = "inp_gate", .projection = "proj", .norm = "post_norm"},
                      .output_scale = "layer_output_scale.weight",
                      .latent_attention = {.q_proj = "attn_q",
                                           .q_a_proj = "attn_q_a",
                                           .q_a_norm = "attn_q_a_norm",
                                           .q_b_proj = "attn_q_b",
                                           .kv_a_proj = "attn_kv_a_mqa",
                                           .kv_a_norm = "attn_kv_a_norm",
                                           .kv_b_proj = "attn_kv_b",
                                           .o_proj = "attn_output",
                                           .indexer = {.q_b_proj = "indexer.attn_q_b",
                                                       .k_proj = "indexer.attn_k",
                                                       .k_norm = "indexer.k_norm",
                                                       .weights_proj = "indexer.proj"}},
                      .delta_net = {.in_proj_qkvz = "ssm_in",
                                    .in_proj_qkv = "attn_qkv",
                                    .in_proj_z = "attn_gate",
                                    .in_proj_ba = "ssm_ba",
                                    .in_proj_b = "ssm_beta",
                                    .in_proj_a = "ssm_alpha",
                                    .conv = "ssm_conv1d",
                                    .q_proj = "attn_q",
                                    .k_proj = "attn_k",
                                    .v_proj = "attn_v",
                                    .q_conv = "ssm_conv1d_q",
                                    .k_conv = "ssm_conv1d_k",
                                    .v_conv = "ssm_conv1d_v",
                                    .decay_down = "ssm_f_a",
                                    .decay_up = "ssm_f_b",
                                    .gate_down = "ssm_g_a",
                                    .gate_up = "ssm_g_b",
                                    .decay = "ssm_a",
                                    .decay_bias = "ssm_dt.bias",
                                    .norm = "ssm_norm",
                                    .out_proj = "ssm_out"},
                      .short_convolution = {.in_proj = "shortconv.in_proj",
                                            .conv = "shortconv.conv",
                                            .out_proj = "shortconv.out_proj"},
                      .next_token = {.projection = "nextn.eh_proj",
                                     .embedding_norm = "nextn.enorm",
                                     .state_norm = "nextn.hnorm",
                                     .final_norm = "nextn.shared_head_norm",
                                     .embed_tokens = "nextn.embed_tokens",
                                     .lm_head = "nextn.shared_head_head"}};
  for_each_part(
      [](const auto& table, auto& part) {
        for (const auto& tensor : table) part.*tensor.name = tensor.gguf;
      },
      names);
  return names;
}

bool may_be_quantized(std::string_view tensor) {
  constexpr std::string_view kBlocks = "blk.";
  if (tensor.starts_with(kBlocks)) tensor.remove_prefix(tensor.find('.', kBlocks.size()) + 1);
  if (tensor.ends_with(".weight")) tensor.remove_suffix(std::string_view(".weight").size());
  bool may_be = true;
  const BlockNames names;
  for_each_part(
      [&](const auto& table, const auto& /*part*/) {
        for (const auto& row : table) may_be = may_be && (row.is_quantized || tensor != row.gguf);
      },
      names);
  return may_be;
}

namespace tensor_names {

std::string weight_of(const std::string& layer) { return layer + ".weight"; }
std::string bias_of(const std::string& layer) { return layer + ".bias"; }

}  // namespace tensor_names
}  // namespace tp
