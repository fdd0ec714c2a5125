#include "model/weights/gguf_names.h"

#include "model/config/architectures.h"
#include "model/files/parse_number.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

namespace tp {
namespace {

const std::string kBlocks = "blk.";
const std::string kBlock = kBlocks + "#.";
constexpr std::string_view kWeight = ".weight";

// A name without its numbers: "model.layers.#.mlp.experts.#.up_proj" and {3, 17}.
struct Pattern {
  std::string text{};
  std::vector<std::size_t> numbers{};
  std::string_view end{};  // ".weight" or ".bias", if `text` is without it
};

Pattern pattern_of(std::string_view name) {
  Pattern pattern;
  while (true) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const std::string_view word = name.substr(0, dot);
    if (const auto number = parse_number<std::size_t>(word)) {
      pattern.numbers.push_back(*number);
      pattern.text += '#';
    } else {
      pattern.text += word;
    }
    if (dot == name.size()) return pattern;
    pattern.text += '.';
    name.remove_prefix(dot + 1);
  }
}

// Most names are a layer's plus ".weight" or ".bias"; a few patterns are complete names of tensors.
template <class Map>
Pattern pattern_among(const Map& known, std::string_view name) {
  if (Pattern whole = pattern_of(name); known.contains(whole.text)) return whole;
  const std::size_t dot = std::min(name.rfind('.'), name.size());
  Pattern pattern = pattern_of(name.substr(0, dot));
  pattern.end = name.substr(dot);
  return pattern;
}

// The name with its first marks (#) replaced by the numbers.
std::string with_numbers(std::string_view name, std::span<const std::size_t> numbers) {
  std::string result(name);
  for (const std::size_t number : numbers) {
    const std::size_t mark = result.find('#');
    if (mark == result.npos) break;
    result.replace(mark, 1, std::to_string(number));
  }
  return result;
}

TensorNames names_of(const ModelMetadata& model) {
  const Family& family = family_of(model);
  TensorNames names = family.names;
  if (family.gguf.adapt_names != nullptr) family.gguf.adapt_names(model, names);
  return names;
}

GgufHeads heads_in(const ModelMetadata& model) {
  GgufHeads heads{model.heads(), model.kv_heads(), model.head_dim()};
  if (!model.has("ssm.time_step_rank")) return heads;
  const auto at_least_one = [](std::uint64_t number) { return std::max<std::uint64_t>(1, number); };
  heads.delta_key_heads = at_least_one(model.whole("ssm.group_count"));
  heads.delta_value_heads = at_least_one(model.whole("ssm.time_step_rank"));
  heads.delta_key_dim = model.whole("ssm.state_size");
  heads.delta_value_dim = model.whole("ssm.inner_size") / heads.delta_value_heads;
  heads.mamba_group = model.whole("ssm.inner_size") / heads.delta_key_heads;
  return heads;
}

}  // namespace

GgufHeads heads_of(const ModelSpec& spec) {
  GgufHeads heads;
  if (const auto* const attention = first_part<AttentionSpec>(spec)) {
    heads.heads = attention->num_attention_heads;
    heads.kv_heads = attention->num_key_value_heads;
    heads.head_dim = attention->head_dim;
  }
  if (const auto* const delta_net = first_part<GatedDeltaNetSpec>(spec)) {
    heads.delta_key_heads = delta_net->num_key_heads;
    heads.delta_value_heads = delta_net->num_value_heads;
    heads.delta_key_dim = delta_net->key_head_dim;
    heads.delta_value_dim = delta_net->value_head_dim;
  }
  if (const MambaSpec* const mixer = first_mixer(spec))
    heads.mamba_group = mixer->num_heads / mixer->num_groups * mixer->head_dim;
  return heads;
}

GgufNames::GgufNames(const ModelMetadata& model) : GgufNames(names_of(model), heads_in(model)) {}

GgufNames::GgufNames(const TensorNames& names, const GgufHeads& heads)
    : blocks_(names.prefix + names.blocks) {
  const GgufTensorNames& stored = names.gguf;
  add(names.prefix + names.embed_tokens, {.tensor = stored.embed_tokens});
  if (!names.embed_positions.empty())
    add(names.prefix + names.embed_positions, {.tensor = stored.embed_positions});
  if (!names.embedding_norm.empty())
    add(names.prefix + names.embedding_norm, {.tensor = stored.embedding_norm});
  add(names.prefix + names.final_norm,
      {.tensor = stored.final_norm, .addend = stored.offset_final_norm ? -stored.norm_offset : 0.0F});
  add(names.lm_head, {.tensor = stored.lm_head});
  using Inputs = PerLayerInputNames;
  for (const auto layer : {&Inputs::embed_tokens, &Inputs::projection, &Inputs::norm}) {
    const std::string& name = names.per_layer_inputs.*layer;
    if (!name.empty()) add(names.prefix + name, {.tensor = stored.per_layer_inputs.*layer});
  }
  add_block(names, heads);
}

void GgufNames::add(const std::string& name, GgufPlace place) {
  if (name.empty()) return;
  stored_[place.tensor] = name;
  places_[name] = std::move(place);
}

// A fused projection is added several times, with the same result.
void GgufNames::add_block(const TensorNames& names, const GgufHeads& heads) {
  const BlockNames block = names.names_of_block(blocks_ + "#.");
  const BlockNames& stored = names.gguf.block;
  const std::string of_head = block.norm_tensor_per_head ? ".#" : "";  // rows of one tensor in the file
  for (const auto norm : {&BlockNames::q_norm, &BlockNames::k_norm}) {
    if (!(block.*norm).empty())
      add(block.*norm + of_head, {.tensor = kBlock + stored.*norm, .addend = -names.gguf.norm_offset});
  }
  for (const auto norm : {&BlockNames::input_norm, &BlockNames::post_attention_norm,
                          &BlockNames::pre_feed_forward_norm, &BlockNames::post_feed_forward_norm,
                          &BlockNames::mlp_norm, &BlockNames::experts_input_norm, &BlockNames::experts_norm})
    add(block.*norm, {.tensor = kBlock + stored.*norm, .addend = -names.gguf.norm_offset});
  add_gated_mlp({.gate_proj = block.gate_proj,
                 .up_proj = block.up_proj,
                 .down_proj = {},
                 .gate_up_proj = block.gate_up_proj},
                {.gate_proj = stored.gate_proj, .up_proj = stored.up_proj, .down_proj = {}});
  for (const auto projection :
       {&BlockNames::o_proj, &BlockNames::gate_proj, &BlockNames::up_proj, &BlockNames::down_proj})
    add(block.*projection, {.tensor = kBlock + stored.*projection, .is_transposed = block.transposed});

  const std::size_t kv_heads = std::max<std::size_t>(1, heads.kv_heads);
  GgufOrder fused{.head_dim = heads.head_dim,
                  .groups = kv_heads,
                  .per_group = std::max<std::size_t>(1, heads.heads) / kv_heads};
  if (block.fused_qkv == BlockNames::FusedQkv::by_kv_head) fused.kind = GgufOrder::Kind::by_kind;
  GgufOrder rotated = fused;
  if (names.gguf.interleaved_query_key) rotated.kind = GgufOrder::Kind::interleaved;
  const auto add_projection = [&](auto projection, const GgufOrder& rows) {
    add(block.*projection,
        {.tensor = kBlock + stored.*projection, .rows = rows, .is_transposed = block.transposed});
  };
  add_projection(&BlockNames::q_proj, rotated);
  add_projection(&BlockNames::k_proj, rotated);
  add_projection(&BlockNames::v_proj, fused);
  add_projection(&BlockNames::qkv_proj, fused);
  add(block.attention_gate, {.tensor = kBlock + stored.attention_gate});

  for (const char* const parameter : {"alpha_p", "alpha_n", "beta", "eps"}) {
    const std::string key = stored.activation + parameter;
    if (!block.activation.empty()) add(block.activation + parameter, {.tensor = kBlock + key, .list = key});
  }
  add(block.sinks, {.tensor = kBlock + stored.sinks});
  add(block.output_scale, {.tensor = kBlock + stored.output_scale});
  using LayerInput = LayerInputNames;
  for (const auto layer : {&LayerInput::gate, &LayerInput::projection, &LayerInput::norm})
    add(block.layer_input.*layer, {.tensor = kBlock + stored.layer_input.*layer});
  using Latent = LatentAttentionNames;
  for (const auto layer : {&Latent::q_a_proj, &Latent::q_a_norm, &Latent::q_b_proj, &Latent::kv_a_proj,
                           &Latent::kv_a_norm, &Latent::kv_b_proj})
    add(block.latent_attention.*layer, {.tensor = kBlock + stored.latent_attention.*layer});
  using Indexer = IndexerNames;
  for (const auto layer : {&Indexer::q_b_proj, &Indexer::k_proj, &Indexer::k_norm, &Indexer::weights_proj})
    add(block.latent_attention.indexer.*layer, {.tensor = kBlock + stored.latent_attention.indexer.*layer});
  using NextToken = NextTokenNames;
  for (const auto layer : {&NextToken::projection, &NextToken::embed_tokens, &NextToken::lm_head})
    add(block.next_token.*layer, {.tensor = kBlock + stored.next_token.*layer});
  for (const auto norm : {&NextToken::embedding_norm, &NextToken::state_norm, &NextToken::final_norm})
    add(block.next_token.*norm,
        {.tensor = kBlock + stored.next_token.*norm, .addend = -names.gguf.norm_offset});
  add_delta_net(block.delta_net, names.gguf, heads);
  using Convolution = ShortConvolutionNames;
  for (const auto layer : {&Convolution::in_proj, &Convolution::conv, &Convolution::out_proj})
    add(block.short_convolution.*layer, {.tensor = kBlock + stored.short_convolution.*layer});
  const GgufContext context{block, names.gguf, heads};
  for_each_part(
      [&](const auto& table, const auto& part, const auto& stored_part) {
        for (const auto& tensor : table) {
          GgufPlace place = tensor.place != nullptr ? tensor.place(context) : GgufPlace();
          place.tensor = kBlock + stored_part.*tensor.name;
          add(part.*tensor.name, std::move(place));
        }
      },
      block, stored);
  if (!block.experts.experts.empty()) add_experts(block.experts, stored.experts);
}

// Files store the two halves of gate_up_proj separately.
void GgufNames::add_gated_mlp(const GatedMlpNames& names, const GatedMlpNames& stored) {
  add(names.gate_up_proj,
      {.tensor = kBlock + stored.gate_proj, .second_half = kBlock + stored.up_proj + std::string(kWeight)});
}

void GgufNames::add_delta_net(const GatedDeltaNetNames& names, const GgufTensorNames& gguf,
                              const GgufHeads& heads) {
  using Names = GatedDeltaNetNames;
  const Names& stored = gguf.block.delta_net;
  const std::size_t per_group = heads.delta_value_heads / heads.delta_key_heads;
  // The order of value heads with `head_dim` elements each, after `first` other elements.
  const auto values = [&](std::size_t head_dim, std::size_t first = 0) -> GgufOrder {
    if (!gguf.tiled_value_heads || per_group <= 1) return {};
    return {.kind = GgufOrder::Kind::tiled,
            .head_dim = head_dim,
            .groups = heads.delta_key_heads,
            .per_group = per_group,
            .first = first};
  };
  const std::size_t keys = 2 * heads.delta_key_heads * heads.delta_key_dim;  // queries and keys
  const auto add_rows = [&](std::string Names::*layer, const GgufOrder& rows) {
    add(names.*layer, {.tensor = kBlock + stored.*layer, .rows = rows});
  };
  for (const auto layer : {&Names::in_proj_qkvz, &Names::in_proj_ba, &Names::norm}) add_rows(layer, {});
  for (const auto layer : {&Names::in_proj_qkv, &Names::conv})
    add_rows(layer, values(heads.delta_value_dim, keys));
  add_rows(&Names::in_proj_z, values(heads.delta_value_dim));
  for (const auto layer : {&Names::in_proj_b, &Names::in_proj_a, &Names::decay_bias})
    add_rows(layer, values(1));
  const bool is_kimi = !names.decay_up.empty();  // its file stores the numbers of heads as a column
  add(names.decay, {.tensor = kBlock + stored.decay,
                    .rows = values(1),
                    .vector_row = is_kimi ? 1U : 0U,
                    .is_negative_exp = true});
  for (const auto layer : {&Names::q_conv, &Names::k_conv, &Names::v_conv})
    add(names.*layer, {.tensor = kBlock + stored.*layer, .has_extent_1 = true});
  for (const auto layer : {&Names::decay_down, &Names::decay_up, &Names::gate_down, &Names::gate_up})
    add_rows(layer, {});
  add(names.out_proj, {.tensor = kBlock + stored.out_proj, .columns = values(heads.delta_value_dim)});
}

void GgufNames::add_experts(const ExpertNames& names, const ExpertNames& stored) {
  for (const auto layer : {&ExpertNames::router, &ExpertNames::correction_bias, &ExpertNames::router_scale,
                           &ExpertNames::per_expert_scale, &ExpertNames::latent_down, &ExpertNames::latent_up,
                           &ExpertNames::shared_expert_gate})
    add(names.*layer, {.tensor = kBlock + stored.*layer});
  add_gated_mlp(names.shared_expert, stored.shared_expert);
  for (const auto part : {&GatedMlpNames::gate_proj, &GatedMlpNames::up_proj, &GatedMlpNames::down_proj}) {
    if (names.parts.*part == "") continue;  // experts without a gate
    add(names.shared_expert.*part, {.tensor = kBlock + stored.shared_expert.*part});
    add(names.experts + "#." + names.parts.*part, {.tensor = kBlock + stored.parts.*part});
  }
  const ExpertStackNames stacks = names.all_experts();
  if (stacks.transposed || stacks.alternating) return;  // the file has a different layout
  const std::string gate_up = kBlock + stored.stacks.gate_up_proj;
  add(stacks.gate_up_proj, {.tensor = gate_up, .is_stack = true});
  // The file uses this tensor for down_proj even if the other two matrices of experts have separate stacks.
  places_[stacks.down_proj] = {.tensor = kBlock + stored.stacks.down_proj, .is_stack = true};
}

std::optional<GgufPlace> GgufNames::find(std::string_view name) const {
  const Pattern pattern = pattern_among(places_, name);
  const auto found = places_.find(pattern.text);
  if (found == places_.end()) return std::nullopt;
  GgufPlace place = found->second;
  place.tensor = with_numbers(place.tensor, pattern.numbers);
  place.second_half = with_numbers(place.second_half, pattern.numbers);
  if (!place.is_stack || pattern.end != kWeight)
    place.tensor.append(pattern.end);  // a stack's name contains it
  if (pattern.numbers.size() > 1) place.expert = pattern.numbers[1];
  if (pattern.end != kWeight) {  // a bias
    place.is_transposed = false;
    place.columns = {};
    place.addend = 0.0F;
  }
  return place;
}

std::string GgufNames::in_file(const std::string& name) const {
  if (const std::optional<GgufPlace> place = find(name)) return place->tensor;
  return name.starts_with(blocks_) ? kBlocks + name.substr(blocks_.size()) : name;
}

std::vector<std::string> GgufNames::in_checkpoint(const GgufTensor& tensor) const {
  // These tensors are part of the config.
  if (tensor.name == "rope_freqs.weight" || tensor.name.starts_with("rope_factors_")) return {};
  Pattern pattern = pattern_among(stored_, tensor.name);
  // kv_b may be stored as two stacks.
  if (pattern.text == "blk.#.attn_k_b" || pattern.text == "blk.#.attn_v_b") pattern.text = "blk.#.attn_kv_b";
  const auto name = stored_.find(pattern.text);
  if (name == stored_.end() && pattern.text == "blk.#.attn_qkv" && stored_.contains("blk.#.attn_q")) {
    std::vector<std::string> parts;  // see find_gguf_rows
    for (const char* const part : {"blk.#.attn_q", "blk.#.attn_k", "blk.#.attn_v"}) {
      if (const auto own = stored_.find(part); own != stored_.end())
        parts.push_back(with_numbers(own->second, pattern.numbers).append(pattern.end));
    }
    return parts;
  }
  if (name == stored_.end()) {
    if (!tensor.name.starts_with(kBlocks)) return {tensor.name};
    return {blocks_ + tensor.name.substr(kBlocks.size())};
  }
  const bool is_stack = std::count(name->second.begin(), name->second.end(), '#') > 1;
  std::vector<std::string> result;
  for (std::size_t expert = 0; expert < (is_stack ? tensor.shape.front() : 1); ++expert) {
    std::vector<std::size_t> numbers = pattern.numbers;
    numbers.push_back(expert);
    result.push_back(with_numbers(name->second, numbers).append(pattern.end));
  }
  return result;
}

}  // namespace tp
