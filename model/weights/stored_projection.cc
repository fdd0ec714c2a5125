#include "model/weights/stored_projection.h"

#include <algorithm>

namespace tp {
namespace {

constexpr const char* kExpertReason = "the expert's intermediate size";
constexpr const char* kTwoExperts = "2 x the expert's intermediate size";

// The name of a tensor's elements in MXFP4.
std::string mxfp4_name(const std::string& tensor) { return tensor + "_blocks"; }

bool has_layer(const WeightSource& source, const std::string& layer) {
  return !layer.empty() && source.contains(tensor_names::weight_of(layer));
}

StoredLayer layer_of(const BlockNames& names, const std::string& name, std::size_t rows,
                     std::size_t hidden_size, const std::string& rows_reason) {
  return {name, {rows, hidden_size}, rows_reason, "hidden_size", names.transposed};
}

StoredProjection whole(const BlockNames& names, const std::string& name, std::size_t rows,
                       std::size_t hidden_size, const std::string& rows_reason) {
  return {layer_of(names, name, rows, hidden_size, rows_reason), 0, rows, rows};
}

// The gates of attention's output, if they have their own tensor.
StoredProjection stored_gate(const BlockNames& names, const AttentionSpec& spec, std::size_t hidden_size) {
  if (!spec.output_gate) return {};
  const std::size_t heads = spec.num_attention_heads;
  return spec.gate_per_head ? whole(names, names.attention_gate, heads, hidden_size, "num_attention_heads")
                            : whole(names, names.attention_gate, heads * spec.head_dim, hidden_size,
                                    "num_attention_heads x head_dim");
}

}  // namespace

void StoredProjection::append_rows(Range rows, std::vector<OwnedRows>& parts) const {
  if (piece == 1) return parts.push_back({layer, rows, first, stride});
  for (std::size_t row = rows.begin; row < rows.end;) {
    const std::size_t place = row % piece;
    const std::size_t count = std::min(piece - place, rows.end - row);
    const std::size_t begin = first + row / piece * stride + place;
    parts.push_back({layer, {begin, begin + count}});
    row += count;
  }
}

StoredQkv stored_qkv(const BlockNames& names, const AttentionSpec& spec, std::size_t hidden_size) {
  const std::size_t query = spec.num_attention_heads * spec.head_dim;
  const std::size_t kv = spec.num_key_value_heads * spec.head_dim;
  const std::size_t value = spec.num_key_value_heads * spec.value_dim();
  if (spec.output_gate && names.attention_gate.empty()) {
    const StoredLayer both =
        layer_of(names, names.q_proj, 2 * query, hidden_size, "2 x num_attention_heads x head_dim");
    return {{both, 0, spec.head_dim, 2 * spec.head_dim},
            whole(names, names.k_proj, kv, hidden_size, "num_key_value_heads x head_dim"),
            whole(names, names.v_proj, kv, hidden_size, "num_key_value_heads x head_dim"),
            {both, spec.head_dim, spec.head_dim, 2 * spec.head_dim}};
  }
  if (names.q_proj != names.k_proj) {
    return {whole(names, names.q_proj, query, hidden_size, "num_attention_heads x head_dim"),
            whole(names, names.k_proj, kv, hidden_size, "num_key_value_heads x head_dim"),
            whole(names, names.v_proj, value, hidden_size, "num_key_value_heads x v_head_dim"),
            stored_gate(names, spec, hidden_size)};
  }
  const StoredLayer layer = layer_of(names, names.q_proj, query + 2 * kv, hidden_size,
                                     "(num_attention_heads + 2 num_key_value_heads) x head_dim");
  if (names.fused_qkv == BlockNames::FusedQkv::stacked)
    return {{layer, 0, query, query}, {layer, query, kv, kv}, {layer, query + kv, kv, kv}};
  const std::size_t group = query / spec.num_key_value_heads;  // rows of a KV head's queries
  const std::size_t stride = group + 2 * spec.head_dim;
  return {{layer, 0, group, stride},
          {layer, group, spec.head_dim, stride},
          {layer, group + spec.head_dim, spec.head_dim, stride}};
}

StoredGateUp stored_gate_up(const WeightSource& source, const BlockNames& names,
                            std::size_t intermediate_size, std::size_t hidden_size) {
  const std::size_t size = intermediate_size;
  const bool has_both = has_layer(source, names.gate_up_proj);
  if (!has_both && names.gate_proj != names.up_proj) {
    return {whole(names, names.gate_proj, size, hidden_size, "intermediate_size"),
            whole(names, names.up_proj, size, hidden_size, "intermediate_size")};
  }
  const StoredLayer layer = layer_of(names, has_both ? names.gate_up_proj : names.gate_proj, 2 * size,
                                     hidden_size, "2 x intermediate_size");
  return {{layer, 0, size, size}, {layer, size, size, size}};
}

StoredExpert stored_expert(const WeightSource& source, const GatedMlpNames& names,
                           std::size_t intermediate_size, std::size_t hidden_size) {
  const std::size_t size = intermediate_size;
  const MatrixShape shape{size, hidden_size};
  const StoredLayer down{names.down_proj, {hidden_size, size}, "hidden_size", kExpertReason};
  if (has_layer(source, names.gate_up_proj)) {
    const StoredLayer both{names.gate_up_proj, {2 * size, hidden_size}, kTwoExperts, "hidden_size"};
    return {{both, 0, size, size}, {both, size, size, size}, down};
  }
  return {{{names.gate_proj, shape, kExpertReason, "hidden_size"}, 0, size, size},
          {{names.up_proj, shape, kExpertReason, "hidden_size"}, 0, size, size},
          down};
}

ExpertStacks::ExpertStacks(const WeightSource& source, const ExpertNames& names, std::size_t num_experts)
    : source_(source), names_(names), num_experts_(num_experts) {
  names_.stacks = names.all_experts();
  ExpertStackNames& stacks = names_.stacks;
  // A source that makes tensors of any name has separate experts.
  const std::string& first = stacks.gate_proj.empty() ? stacks.gate_up_proj : stacks.gate_proj;
  if (first.empty() || has_layer(source, names.expert(0).up_proj)) return;
  are_quantized_ = source.contains(mxfp4_name(first));
  are_stacks_ = are_quantized_ || source.contains(first);
  if (are_stacks_ || !source.contains(tensor_names::weight_of(first))) return;
  are_stacks_ = true;
  for (std::string* name : {&stacks.gate_up_proj, &stacks.gate_proj, &stacks.up_proj, &stacks.down_proj}) {
    if (!name->empty()) *name = tensor_names::weight_of(*name);
  }
}

StoredExpert ExpertStacks::expert(std::size_t index, std::size_t intermediate_size,
                                  std::size_t hidden_size) const {
  if (!are_stacks_) return stored_expert(source_, names_.expert(index), intermediate_size, hidden_size);
  const ExpertStackNames& stacks = names_.stacks;
  const std::size_t size = intermediate_size;
  const auto layer_of = [&](const std::string& weight, const std::string& bias, StoredLayer layer) {
    layer.name = are_quantized_ ? mxfp4_name(weight) : weight;
    layer.transposed = stacks.transposed && !are_quantized_;
    layer.stack = {.matrices = num_experts_, .index = index, .bias = bias};
    return layer;
  };
  const GatedMlpNames separate = names_.experts.empty() ? GatedMlpNames() : names_.expert(index);
  const auto named = [](StoredLayer layer, const std::string& name, std::size_t rows, std::size_t first = 0) {
    layer.stack.layer = name;
    layer.stack.layer_rows = rows;
    layer.stack.first = first;
    return layer;
  };
  const StoredLayer gate_up = layer_of(
      stacks.gate_up_proj, stacks.gate_up_bias,
      {.name = {}, .shape = {2 * size, hidden_size}, .out_reason = kTwoExperts, .in_reason = "hidden_size"});
  StoredLayer down = layer_of(
      stacks.down_proj, stacks.down_bias,
      {.name = {}, .shape = {hidden_size, size}, .out_reason = "hidden_size", .in_reason = kExpertReason});
  down.transposed = down.transposed || stacks.down_transposed;
  down = named(std::move(down), separate.down_proj, hidden_size);
  if (!stacks.gate_proj.empty()) {
    const auto whole_layer = [&](const std::string& name) {
      return layer_of(name, {},
                      {.name = {},
                       .shape = {size, hidden_size},
                       .out_reason = kExpertReason,
                       .in_reason = "hidden_size"});
    };
    return {{named(whole_layer(stacks.gate_proj), separate.gate_proj, size), 0, size, size},
            {named(whole_layer(stacks.up_proj), separate.up_proj, size), 0, size, size},
            down};
  }
  const StoredLayer gate = named(gate_up, separate.gate_proj, size);
  if (stacks.alternating) return {{gate, 0, 1, 2}, {named(gate_up, separate.up_proj, size), 1, 1, 2}, down};
  return {{gate, 0, size, size}, {named(gate_up, separate.up_proj, size, size), size, size, size}, down};
}

}  // namespace tp
