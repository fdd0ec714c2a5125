#include "model/weights/gguf_names.h"

#include "model/config/architectures.h"
#include "model/files/parse_number.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

namespace tp {
namespace {

const std::string kBlocks = "blk.";
constexpr std::string_view kWeight = ".weight";

// A name without its numbers: "model.layers.#.mlp.experts.#.up_proj" and {3, 17}.
struct Pattern {
  std::string text{};
  std::vector<std::size_t> numbers{};
  std::string_view end{};  // ".weight" or ".bias", if `text` is without it
};

// `max`: only as many of its first numbers are replaced.
Pattern pattern_of(std::string_view name, std::size_t max = SIZE_MAX) {
  Pattern pattern;
  while (true) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    const std::string_view word = name.substr(0, dot);
    const auto number = pattern.numbers.size() < max ? parse_number<std::size_t>(word) : std::nullopt;
    if (number) {
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

// Most names are a layer's plus ".weight" or ".bias"; a few patterns are complete names of tensors. Numbers
// after the block's, or all numbers, may be a part of the pattern: "model.layers.#.attn.w_lora.lora.0".
template <class Map>
Pattern pattern_among(const Map& known, std::string_view name) {
  const std::size_t dot = std::min(name.rfind('.'), name.size());
  Pattern pattern;
  for (const std::size_t max : {SIZE_MAX, std::size_t{1}, std::size_t{0}}) {
    if (Pattern whole = pattern_of(name, max); known.contains(whole.text)) return whole;
    Pattern layer = pattern_of(name.substr(0, dot), max);
    layer.end = name.substr(dot);
    if (known.contains(layer.text)) return layer;
    if (max == SIZE_MAX) pattern = std::move(layer);
  }
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

std::size_t marks_in(std::string_view name) {
  return static_cast<std::size_t>(std::ranges::count(name, '#'));
}

template <class Map>
const typename Map::mapped_type* find_in(const Map& map, const std::string& pattern) {
  const auto found = map.find(pattern);
  return found == map.end() ? nullptr : &found->second;
}

TensorNames names_of(const ModelMetadata& model) {
  const Family& family = family_of(model);
  TensorNames names = family.names;
  if (family.gguf.adapt_names != nullptr) family.gguf.adapt_names(model, names);
  return names;
}

// A list of KV heads has 0 for layers with a recurrence.
std::vector<bool> recurrent_layers_in(const ModelMetadata& model) {
  std::vector<bool> layers;
  if (!model.has("attention.head_count_kv")) return layers;
  for (const std::uint64_t heads : model.wholes("attention.head_count_kv")) layers.push_back(heads == 0);
  return layers;
}

// Files that carry a config.json have no numbers of heads, and keep the order of rows.
GgufHeads heads_in(const ModelMetadata& model) {
  if (!model.carried_config().empty()) return {};
  GgufHeads heads{model.heads(), model.kv_heads(), model.head_dim()};
  heads.recurrent_layers = recurrent_layers_in(model);
  heads.rwkv7_head_dim = model.whole_or("wkv.head_size", 0);
  if (!model.has("ssm.time_step_rank") || !model.has("ssm.group_count")) return heads;
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
  for (const BlockSpec& block : spec.blocks) heads.recurrent_layers.push_back(is_recurrent(block.attention));
  if (const auto* const attention = first_part<AttentionSpec>(spec)) {
    heads.heads = attention->num_attention_heads;
    heads.kv_heads = attention->num_key_value_heads;
    heads.head_dim = attention->head_dim;
    if (attention->pooled_indexer) heads.index_heads = attention->pooled_indexer->num_heads;
  }
  if (const auto* const delta_net = first_part<GatedDeltaNetSpec>(spec)) {
    heads.delta_key_heads = delta_net->num_key_heads;
    heads.delta_value_heads = delta_net->num_value_heads;
    heads.delta_key_dim = delta_net->key_head_dim;
    heads.delta_value_dim = delta_net->value_head_dim;
  }
  if (const auto* const mix = first_part<Rwkv7Spec>(spec)) heads.rwkv7_head_dim = mix->head_dim;
  if (const MambaSpec* const mixer = first_mixer(spec))
    heads.mamba_group = mixer->num_heads / mixer->num_groups * mixer->head_dim;
  return heads;
}

GgufNames::GgufNames(const ModelMetadata& model) : GgufNames(names_of(model), heads_in(model)) {}

GgufNames::GgufNames(const TensorNames& names, const GgufHeads& heads)
    : recurrent_layers_(heads.recurrent_layers), blocks_(names.prefix + names.blocks) {
  const GgufTensorNames& stored = names.gguf;
  add(names.prefix + names.embed_tokens, {.tensor = stored.embed_tokens});
  if (!names.embed_positions.empty())
    add(names.prefix + names.embed_positions, {.tensor = stored.embed_positions});
  if (!names.embedding_norm.empty())
    add(names.prefix + names.embedding_norm, {.tensor = stored.embedding_norm});
  if (!names.token_types.empty()) add(names.prefix + names.token_types, {.tensor = stored.token_types});
  if (!names.final_norm.empty())
    add(names.prefix + names.final_norm,
        {.tensor = stored.final_norm, .addend = stored.offset_final_norm ? -stored.norm_offset : 0.0F});
  add(names.lm_head, {.tensor = stored.lm_head});
  for (const auto& [layer, in_file] : stored.sequence_head) add(layer, {.tensor = in_file});
  using Inputs = PerLayerInputNames;
  for (const auto layer : {&Inputs::embed_tokens, &Inputs::projection, &Inputs::norm}) {
    const std::string& name = names.per_layer_inputs.*layer;
    if (!name.empty()) add(names.prefix + name, {.tensor = stored.per_layer_inputs.*layer});
  }
  if (!names.hash_table.empty()) add(names.hash_table, {.tensor = stored.hash_table});
  for (const auto& tensor : kAltUpStreamTensors) {
    const std::string& name = names.altup_streams.*tensor.name;
    if (!name.empty()) add(names.prefix + name + ".#", {.tensor = stored.altup_streams.*tensor.name});
  }
  for (const auto& tensor : kLastConnectionTensors) {
    const std::string& name = names.last_connection.*tensor.name;
    if (!name.empty()) add(names.prefix + name, {.tensor = stored.last_connection.*tensor.name});
  }
  for (const auto& tensor : kLastLowRankTensors) {
    const std::string& name = names.last_low_rank.*tensor.name;
    if (name.empty()) continue;
    add(names.prefix + name, {.tensor = stored.last_low_rank.*tensor.name,
                              .addend = tensor.place != nullptr ? -stored.norm_offset : 0.0F});
  }
  if (!names.last_residual.proj.empty())
    add(names.prefix + names.last_residual.proj, {.tensor = stored.last_residual.proj});
  add_block(names, heads);
}

void GgufNames::add(const std::string& name, GgufPlace place, Patterns& patterns) {
  if (name.empty()) return;
  patterns.stored[place.tensor] = name;
  patterns.places[name] = std::move(place);
}

void GgufNames::add_recurrent(const std::string& name, GgufPlace place) {
  const auto same_name = all_.places.find(name);
  const auto same_tensor = all_.stored.find(place.tensor);
  const bool is_known = (same_name != all_.places.end() && same_name->second.tensor != place.tensor) ||
                        (same_tensor != all_.stored.end() && same_tensor->second != name);
  add(name, std::move(place), is_known ? recurrent_ : all_);
}

// The three projections are rows of one tensor in the checkpoint.
void GgufNames::add_separate_qkv(const BlockNames& names, const GgufContext& context) {
  const BlockNames& stored = context.gguf.block;
  if (names.qkv_proj.empty() || !stored.qkv_proj.empty()) return;
  BlockNames fused = names;
  fused.q_proj = fused.k_proj = fused.v_proj = names.qkv_proj;
  SeparateQkv& separate = separate_qkv_[names.qkv_proj];
  separate.order = gguf_qkv_rows({fused, context.gguf, context.heads}).rows;
  const std::size_t kv_rows = context.heads.kv_heads * context.heads.head_dim;
  separate.rows = {context.heads.heads * context.heads.head_dim, kv_rows, kv_rows};
  separate.parts = {gguf_rotated_rows(context), gguf_rotated_rows(context), gguf_qkv_rows(context)};
  const std::array tensors = {&stored.q_proj, &stored.k_proj, &stored.v_proj};
  for (std::size_t i = 0; i < tensors.size(); ++i) separate.parts[i].tensor = kGgufBlock + *tensors[i];
}

bool GgufNames::is_recurrent(std::span<const std::size_t> numbers) const {
  return !numbers.empty() && numbers.front() < recurrent_layers_.size() && recurrent_layers_[numbers.front()];
}

// A fused projection is added several times, with the same result.
void GgufNames::add_block(const TensorNames& names, const GgufHeads& heads) {
  BlockNames block = names.names_of_block(blocks_ + "#.");
  for (std::string* const norm : {&block.q_norm, &block.k_norm}) {
    if (block.norm_tensor_per_head && !norm->empty()) *norm += ".#";  // rows of one tensor in the file
  }
  const BlockNames& stored = names.gguf.block;
  const GgufContext context{block, names.gguf, heads};
  for_each_part(
      [&](const auto& table, const auto& part, const auto& stored_part) {
        for (const auto& tensor : table) {
          const std::string& stored_name = stored_part.*tensor.name;
          if (stored_name.empty()) continue;
          GgufPlace place = tensor.place != nullptr ? tensor.place(context) : GgufPlace();
          place.tensor = kGgufBlock + stored_name;
          if constexpr (std::is_same_v<std::decay_t<decltype(part)>, GatedDeltaNetNames>)
            add_recurrent(part.*tensor.name, std::move(place));
          else
            add(part.*tensor.name, std::move(place));
        }
      },
      block, stored);
  add_separate_qkv(block, context);
  for (const std::string& table : {block.hash_table.table, block.hash_table.shards}) {
    if (!names.hash_table.empty() && !table.empty())
      table_parts_[table] = {.tensor = names.gguf.hash_table + std::string(kWeight)};
  }
  add_drafter(block.drafter, stored.drafter);
  for (const char* const parameter : {"alpha_p", "alpha_n", "beta", "eps"}) {
    const std::string key = stored.activation + parameter;
    if (!block.activation.empty())
      add(block.activation + parameter, {.tensor = kGgufBlock + key, .list = key});
  }
  if (!block.experts.experts.empty()) add_experts(block.experts, stored.experts);
}

void GgufNames::add_drafter(const DrafterNames& names, const DrafterNames& stored) {
  if (names.projection.empty()) return;
  add(names.projection, {.tensor = stored.projection});
  if (!stored.embedding_norm.empty())
    add(names.embedding_norm, {.tensor = kGgufBlock + stored.embedding_norm});
  if (!stored.all_streams_norm.empty()) add(names.all_streams_norm, {.tensor = stored.all_streams_norm});
  if (!stored.state_norm.empty()) add(names.state_norm, {.tensor = stored.state_norm});
}

// Files have a stack of each matrix, or of gates and ups together.
void GgufNames::add_experts(const ExpertNames& names, const ExpertNames& stored) {
  for (const auto& tensor : kOneExpertTensors) {
    const std::string& part = names.parts.*tensor.name;
    if (!part.empty()) add(names.experts + "#." + part, {.tensor = kGgufBlock + stored.parts.*tensor.name});
  }
  const ExpertStackNames stacks = names.all_experts();
  if (stacks.transposed && !stacks.alternating) {
    transposed_[stacks.gate_up_proj] = {.tensor = kGgufBlock + stored.stacks.gate_up_proj, .is_stack = true};
    transposed_[stacks.down_proj] = {.tensor = kGgufBlock + stored.stacks.down_proj, .is_stack = true};
  }
  if (stacks.transposed || stacks.alternating) return;  // the file has a different layout
  const std::string gate_up = kGgufBlock + stored.stacks.gate_up_proj;
  add(stacks.gate_up_proj, {.tensor = gate_up, .is_stack = true});
  // The file uses these tensors for matrices that have separate stacks, whether the checkpoint has stacks,
  // too, or a tensor for each expert.
  const auto add_place = [&](const std::string& stack, const std::string& tensor) {
    if (!stack.empty()) all_.places[stack] = {.tensor = kGgufBlock + tensor, .is_stack = true};
  };
  add_place(stacks.gate_proj, stored.parts.gate_proj + std::string(kWeight));
  add_place(stacks.up_proj, stored.parts.up_proj + std::string(kWeight));
  add_place(stacks.down_proj, stored.stacks.down_proj);
}

std::optional<GgufPlace> GgufNames::find(std::string_view name) const {
  const Pattern pattern = pattern_among(all_.places, name);
  const auto* found = find_in(all_.places, pattern.text);
  if (is_recurrent(pattern.numbers)) {
    if (const auto* const own = find_in(recurrent_.places, pattern.text)) found = own;
  }
  if (found == nullptr) return std::nullopt;
  GgufPlace place = *found;
  const std::size_t marks = marks_in(place.tensor);
  place.tensor = with_numbers(place.tensor, pattern.numbers);
  for (GgufShare& share : place.shares) share.tensor = with_numbers(share.tensor, pattern.numbers);
  if (!place.is_stack || pattern.end != kWeight)
    place.tensor.append(pattern.end);  // a stack's name contains it
  if (pattern.numbers.size() > marks) place.expert = pattern.numbers[marks];
  if (pattern.end != kWeight) {  // a bias
    place.is_transposed = false;
    place.columns = {};
    place.addend = 0.0F;
  }
  return place;
}

std::optional<GgufNames::SeparateQkv> GgufNames::find_separate_qkv(std::string_view name) const {
  const Pattern pattern = pattern_among(separate_qkv_, name);
  const auto* const found = find_in(separate_qkv_, pattern.text);
  if (found == nullptr) return std::nullopt;
  SeparateQkv separate = *found;
  for (GgufPlace& part : separate.parts)
    part.tensor = with_numbers(part.tensor, pattern.numbers).append(pattern.end);
  return separate;
}

std::optional<GgufPlace> GgufNames::find_transposed_stack(std::string_view name) const {
  const Pattern pattern = pattern_of(name);
  const auto found = transposed_.find(pattern.text);
  if (found == transposed_.end()) return std::nullopt;
  GgufPlace place = found->second;
  place.tensor = with_numbers(place.tensor, pattern.numbers);
  return place;
}

std::optional<GgufPlace> GgufNames::find_table_part(std::string_view name) const {
  constexpr std::string_view kDigits = "0123456789";
  if (!name.ends_with(kWeight)) return std::nullopt;
  name.remove_suffix(kWeight.size());
  std::string pattern = pattern_of(name, 1).text;
  pattern.erase(pattern.find_last_not_of(kDigits) + 1);
  const auto found = table_parts_.find(pattern);
  return found == table_parts_.end() ? std::nullopt : std::optional(found->second);
}

std::string GgufNames::in_file(const std::string& name) const {
  if (const std::optional<GgufPlace> place = find(name)) return place->tensor;
  return name.starts_with(blocks_) ? kBlocks + name.substr(blocks_.size()) : name;
}

std::vector<std::string> GgufNames::in_checkpoint(const GgufTensor& tensor) const {
  // These tensors are part of the config.
  if (tensor.name == "rope_freqs.weight" || tensor.name.starts_with("rope_factors_")) return {};
  Pattern pattern = pattern_among(all_.stored, tensor.name);
  // kv_b may be stored as two stacks.
  if (pattern.text == "blk.#.attn_k_b" || pattern.text == "blk.#.attn_v_b") pattern.text = "blk.#.attn_kv_b";
  const std::string* name = find_in(all_.stored, pattern.text);
  if (is_recurrent(pattern.numbers)) {
    if (const std::string* const own = find_in(recurrent_.stored, pattern.text)) name = own;
  }
  if (name == nullptr && pattern.text == "blk.#.attn_qkv" && all_.stored.contains("blk.#.attn_q")) {
    std::vector<std::string> parts;  // see find_gguf_rows
    for (const char* const part : {"blk.#.attn_q", "blk.#.attn_k", "blk.#.attn_v"}) {
      if (const std::string* const own = find_in(all_.stored, part))
        parts.push_back(with_numbers(*own, pattern.numbers).append(pattern.end));
    }
    return parts;
  }
  if (name == nullptr) {
    if (!tensor.name.starts_with(kBlocks)) return {tensor.name};
    return {blocks_ + tensor.name.substr(kBlocks.size())};
  }
  const bool is_stack = marks_in(*name) > pattern.numbers.size();
  std::vector<std::string> result;
  for (std::size_t expert = 0; expert < (is_stack ? tensor.shape.front() : 1); ++expert) {
    std::vector<std::size_t> numbers = pattern.numbers;
    numbers.push_back(expert);
    result.push_back(with_numbers(*name, numbers).append(pattern.end));
  }
  return result;
}

}  // namespace tp
