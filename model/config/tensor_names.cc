#include "model/config/tensor_names.h"

#include "model/weights/source/weight_source.h"

#include <algorithm>

#include <fmt/format.h>

namespace tp {

namespace {

// Whether the source has a tensor of the block under its other name only.
bool has_other_names(const WeightSource& source, const BlockNames& usual, const BlockNames& other) {
  const auto has = [&](const std::string& name) {
    return source.contains(name) || source.contains(tensor_names::weight_of(name));
  };
  const std::vector<std::string> names = usual.layers();
  const std::vector<std::string> others = other.layers();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || others[i].empty() || names[i] == others[i]) continue;
    if (!has(names[i]) && has(others[i])) return true;
  }
  return false;
}

}  // namespace

BlockNames TensorNames::block(std::size_t layer) const {
  BlockNames names =
      names_of_block(has_lone_block ? blocks : fmt::format("{}{}.", blocks, stored_block(layer)));
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
  // A tied embedding may be stored as the LM head only; the final norm, or what replaces it, then shows the
  // prefix.
  const auto found = std::ranges::find_if(all, [&](const Prefixes& prefixes) {
    return has(prefixes.body + embed_tokens) || has(prefixes.body + final_norm) ||
           has(prefixes.body + last_low_rank.norm);
  });
  const Prefixes& used = found == all.end() ? all.front() : *found;
  TensorNames names = *this;
  names.prefix.clear();
  names.part_prefix.clear();
  names.body = used.body;
  for (std::string* name : {&names.embed_tokens,
                            &names.embed_positions,
                            &names.axial_positions,
                            &names.token_types,
                            &names.embedding_norm,
                            &names.embedding_projection,
                            &names.relative_bias,
                            &names.per_layer_inputs.embed_tokens,
                            &names.per_layer_inputs.projection,
                            &names.per_layer_inputs.norm,
                            &names.altup_streams.projections,
                            &names.altup_streams.unembed_projections,
                            &names.last_connection.fn,
                            &names.last_connection.base,
                            &names.last_connection.scale,
                            &names.last_low_rank.norm,
                            &names.last_low_rank.down,
                            &names.last_low_rank.up,
                            &names.last_residual.norm,
                            &names.last_residual.proj,
                            &names.self_conditioning.norm,
                            &names.self_conditioning.gate_proj,
                            &names.self_conditioning.up_proj,
                            &names.self_conditioning.down_proj,
                            &names.final_norm}) {
    if (!name->empty()) *name = used.body + *name;
  }
  if (blocks_have_prefix && !blocks.empty()) names.blocks = used.body + blocks;
  names.lm_head = used.head + lm_head;
  if (!lone_block.empty() && has(names_of_block(lone_block).o_proj)) {
    names.blocks = lone_block;
    names.has_lone_block = true;
  }
  TensorNames other = names;
  other.names_of_block = other_names_of_block;
  if (other_names_of_block != nullptr && has_other_names(source, names.block(0), other.block(0)))
    names.names_of_block = other_names_of_block;
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

namespace tensor_names {

std::string weight_of(const std::string& layer) { return layer + ".weight"; }
std::string bias_of(const std::string& layer) { return layer + ".bias"; }

}  // namespace tensor_names
}  // namespace tp
