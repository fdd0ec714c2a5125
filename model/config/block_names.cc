#include "model/config/block_names.h"

#include "model/config/tensor_names.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {

GatedMlpNames ExpertNames::expert(std::size_t index) const {
  const std::string prefix = fmt::format("{}{}.", experts, index);
  return {prefix + parts.gate_proj, prefix + parts.up_proj, prefix + parts.down_proj};
}

ExpertStackNames ExpertNames::all_experts() const {
  if (!stacks.gate_up_proj.empty() || !stacks.gate_proj.empty() || experts.empty()) return stacks;
  return {.gate_up_proj = experts + "gate_up_proj",
          .gate_up_bias = {},
          .down_proj = experts + "down_proj",
          .down_bias = {}};
}

std::vector<std::string> BlockNames::layers() const {
  std::vector<std::string> all;
  for_each_part(
      [&](const auto& table, const auto& part) {
        for (const auto& tensor : table) all.push_back(part.*tensor.name);
      },
      *this);
  for (const auto& tensor : kOneExpertTensors)
    all.push_back(experts.experts + "#." + experts.parts.*tensor.name);
  const ExpertStackNames stacks = experts.all_experts();
  all.insert(all.end(), {stacks.gate_up_proj, stacks.gate_proj, stacks.up_proj, stacks.down_proj});
  const std::string end = ".weight";  // stacks are tensors, whose names include it
  for (std::string& name : all) {
    if (name.ends_with(end)) name.erase(name.size() - end.size());
  }
  return all;
}

BlockNames gguf_block() {
  BlockNames names;
  for_each_part(
      [](const auto& table, auto& part) {
        for (const auto& tensor : table) part.*tensor.name = tensor.gguf;
      },
      names);
  names.activation = "xielu.";
  names.experts.parts = gguf_names(kOneExpertTensors);
  names.experts.stacks = {.gate_up_proj = "ffn_gate_up_exps.weight",
                          .gate_up_bias = {},
                          .down_proj = "ffn_down_exps.weight",
                          .down_bias = {}};
  return names;
}

namespace {

std::string_view without_end(std::string_view text, std::string_view end) {
  if (text.ends_with(end)) text.remove_suffix(end.size());
  return text;
}

}  // namespace

bool may_be_quantized(std::string_view tensor) {
  constexpr std::string_view kBlocks = "blk.";
  constexpr std::string_view kWeight = ".weight";
  if (tensor.starts_with(kBlocks)) tensor.remove_prefix(tensor.find('.', kBlocks.size()) + 1);
  tensor = without_end(tensor, kWeight);
  bool may_be = true;
  const auto look_up = [&](const auto& table) {
    for (const auto& row : table)
      may_be = may_be && (row.is_quantized || tensor != without_end(row.gguf, kWeight));
  };
  for_each_part(look_up);
  look_up(kEngramTensors);
  look_up(kCarriedEngramTensors);
  look_up(kAltUpStreamTensors);
  look_up(kLastConnectionTensors);
  look_up(kLastLowRankTensors);
  return may_be;
}

namespace {

GgufOrder qkv_order(const GgufContext& context) {
  const std::size_t kv_heads = std::max<std::size_t>(1, context.heads.kv_heads);
  GgufOrder order{.head_dim = context.heads.head_dim,
                  .groups = kv_heads,
                  .per_group = std::max<std::size_t>(1, context.heads.heads) / kv_heads};
  const bool is_fused = context.block.q_proj == context.block.v_proj;
  if (is_fused && context.block.fused_qkv == BlockNames::FusedQkv::by_kv_head)
    order.kind = GgufOrder::Kind::by_kind;
  return order;
}

GgufPlace halves(const std::string& first, const std::string& second) {
  return {.shares = {gguf_share(first), gguf_share(second)}};
}

}  // namespace

GgufPlace gguf_norm(const GgufContext& context) { return {.addend = -context.gguf.norm_offset}; }

GgufPlace gguf_rotated_rows(const GgufContext& context) {
  GgufPlace place = gguf_qkv_rows(context);
  if (context.gguf.interleaved_query_key) place.rows.kind = GgufOrder::Kind::interleaved;
  return place;
}

GgufPlace gguf_qkv_rows(const GgufContext& context) {
  return {.rows = qkv_order(context), .is_transposed = context.block.transposed};
}

GgufPlace gguf_matrix(const GgufContext& context) { return {.is_transposed = context.block.transposed}; }

GgufPlace halves_of_mlp(const GgufContext& context) {
  const BlockNames& stored = context.gguf.block;
  return halves(stored.gate_proj, stored.up_proj);
}

GgufPlace halves_of_shared_expert(const GgufContext& context) {
  const GatedMlpNames& stored = context.gguf.block.experts.shared_expert;
  return halves(stored.gate_proj, stored.up_proj);
}

GgufPlace queries_and_key(const GgufContext& context) {
  const PooledIndexerNames& stored = context.gguf.block.pooled_indexer;
  return {.shares = {gguf_share(stored.q_proj, context.heads.index_heads), gguf_share(stored.k_proj)}};
}

}  // namespace tp
