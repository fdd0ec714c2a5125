#include "runtime/store/files/cache_parts.h"

#include "model/kernels/attention_scratch.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <tuple>
#include <variant>

#include <fmt/format.h>

namespace tp {
namespace {

// The attributes that layers of a class have in common. Layers with the widest window come first.
struct LayerClass {
  std::size_t reach = SIZE_MAX;  // tokens that a token sees
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t kind = 0;  // states of different kinds have different parts

  bool operator<(const LayerClass& other) const {
    return std::tuple(other.reach, heads, kv_heads, kind) <
           std::tuple(reach, other.heads, other.kv_heads, other.kind);
  }
};

std::size_t reach_of(const AttentionPattern& pattern) {
  return pattern.causal ? pattern.reach().value_or(SIZE_MAX) : SIZE_MAX;
}

// The class of a layer with keys and values of its own; nothing for other layers.
std::optional<LayerClass> class_of_keys(const BlockSpec& block) {
  const AttentionPartSpec& part = block.attention;
  if (shared_cache_layer(block)) return std::nullopt;
  if (const auto* const latent = std::get_if<LatentAttentionSpec>(&part))
    return LayerClass{SIZE_MAX, latent->num_attention_heads, 1};
  if (const auto* const compressed = std::get_if<CompressedAttentionSpec>(&part))
    return LayerClass{compressed->pool == 0 ? compressed->window : SIZE_MAX, compressed->num_attention_heads,
                      1};
  const auto* const attention = std::get_if<AttentionSpec>(&part);
  if (attention == nullptr || is_recurrent(part)) return std::nullopt;
  return LayerClass{reach_of(attention->pattern), attention->num_attention_heads,
                    attention->num_key_value_heads};
}

std::optional<LayerClass> class_of_states(const BlockSpec& block) {
  if (!keeps_state(block)) return std::nullopt;
  const AttentionPartSpec part = block.parallel_mixer ? *block.parallel_mixer : block.attention;
  if (const auto* const convolution = std::get_if<ShortConvolutionSpec>(&part))
    return LayerClass{SIZE_MAX, convolution->channels, 0};
  const HeadCounts counts = head_counts(part);
  const std::size_t kind = 2 * block.attention.index() + (block.hash_table ? 1 : 0);
  return LayerClass{SIZE_MAX, counts.heads, counts.kv_heads, kind};
}

// The layers of each class, in the order of the classes.
template <class ClassOf>
std::map<LayerClass, std::vector<std::size_t>> layers_by_class(const ModelSpec& spec,
                                                               const ClassOf& class_of) {
  std::map<LayerClass, std::vector<std::size_t>> layers;
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) {
    if (const std::optional<LayerClass> found = class_of(spec.blocks[layer])) layers[*found].push_back(layer);
  }
  return layers;
}

// A rank that holds latents holds all of them.
Range own_kv_heads(const LayerClass& heads, TpRank tp) {
  return heads.kv_heads == 1 ? Range{0, 1} : shard_heads_of_some(heads.heads, heads.kv_heads, tp).kv_heads;
}

void append_keys(const ModelSpec& spec, TpRank tp, const KvCache& cache, std::span<const std::size_t> before,
                 std::vector<CachePart>& parts) {
  std::size_t number = 0;
  for (const auto& found : layers_by_class(spec, class_of_keys)) {
    const LayerClass& heads = found.first;  // clang 14 cannot capture a structured binding
    const Range own = own_kv_heads(heads, tp);
    for (std::size_t head = own.begin; head < own.end; ++head) {
      const bool is_written = std::ranges::any_of(before, [&](std::size_t rank) {
        return own_kv_heads(heads, {rank, tp.size, tp.split}).contains(head);
      });
      CachePart part{.layers = number, .head = head, .writes = !is_written};
      for (const std::size_t layer : found.second)
        part.keys.push_back({cache.group(layer), &cache.layer(layer), head - own.begin});
      parts.push_back(std::move(part));
    }
    ++number;
  }
  if (parts.empty() && tp.is_first()) parts.push_back({});
}

void append_states(const ModelSpec& spec, const KvCache& cache,
                   const std::vector<std::vector<StatePart>>& states, std::vector<CachePart>& parts) {
  std::size_t number = 0;
  for (const auto& [heads, layers] : layers_by_class(spec, class_of_states)) {
    for (std::size_t i = 0; i < states[layers.front()].size(); ++i) {
      CachePart part{.kind = StoredKind::states, .layers = number, .head = states[layers.front()][i].index};
      for (const std::size_t layer : layers)
        part.states.push_back({cache.states().layer(layer), states[layer][i].rows});
      parts.push_back(std::move(part));
    }
    ++number;
  }
}

enum class Blocks : std::uint8_t { all, owned };

// The memory of the run's block number `i`. Null if there is no block, or if another rank writes it.
std::byte* memory_of(const CachePart::Keys& keys, const StoredRun& run, std::size_t groups, Blocks which,
                     std::size_t i) {
  const BlockId id = run.blocks[keys.group * (run.blocks.size() / groups) + i];
  const auto block = static_cast<std::size_t>(id);
  const bool exists = id != kNoBlock && (which == Blocks::all || keys.cache->owns(block, keys.head));
  return exists ? keys.cache->head(block, keys.head) : nullptr;
}

// Calls `copy(memory, bytes)` for each piece of the part's values from the block `first` on, in the order of
// a file. `memory` is null if there is no block, or if another rank writes it.
template <class Copy>
void for_pieces(const CachePart& part, const StoredRun& run, std::size_t groups, Blocks which,
                std::size_t first, const Copy& copy) {
  for (const CachePart::Keys& keys : part.keys) {
    for (std::size_t i = first; i < run.blocks.size() / groups; ++i)
      copy(memory_of(keys, run, groups, which, i), keys.cache->layout.head_bytes());
  }
  for (const CachePart::State& state : part.states) {
    float* const slot = state.states.at(static_cast<std::size_t>(run.state));
    for (const StatePart::Rows& rows : state.rows) {
      for (std::size_t i = 0; i < rows.in_use(run.position); ++i)
        copy(reinterpret_cast<std::byte*>(slot + rows.begin + i * rows.stride), rows.floats * sizeof(float));
    }
  }
}

}  // namespace

std::string CachePart::name() const {
  return fmt::format("{}{}h{}", kind == StoredKind::keys_and_values ? 'k' : 's', layers, head);
}

std::size_t CachePart::bytes(const StoredRun& run, std::size_t groups, std::size_t first) const {
  std::size_t sum = 0;
  for_pieces(*this, run, groups, Blocks::all, first,
             [&](const std::byte*, std::size_t bytes) { sum += bytes; });
  return sum;
}

std::vector<CachePart> parts_of(const ModelSpec& spec, TpRank tp, const KvCache& cache,
                                const std::vector<std::vector<StatePart>>& states,
                                std::span<const std::size_t> before) {
  std::vector<CachePart> parts;
  append_keys(spec, tp, cache, before, parts);
  append_states(spec, cache, states, parts);
  return parts;
}

std::vector<std::string> indexed_parts(const std::vector<CachePart>& parts) {
  std::vector<std::string> names = {parts.front().name()};
  const auto state = std::ranges::find(parts, StoredKind::states, &CachePart::kind);
  if (state != parts.end()) names.push_back(state->name());
  return names;
}

CacheWindow widest_window(const ModelSpec& spec) {
  const auto classes = layers_by_class(spec, class_of_keys);
  if (classes.empty() || classes.begin()->first.reach == SIZE_MAX) return std::nullopt;
  return classes.begin()->first.reach;
}

std::size_t blocks_per_run(std::size_t block_size) {
  return kernels::blocks_per_split({.block_size = block_size});
}

std::size_t complete_from(const CachePart& part, const StoredRun& run, std::size_t groups) {
  std::size_t first = run.blocks.size() / groups;
  while (first > 0 && std::ranges::all_of(part.keys, [&](const CachePart::Keys& keys) {
           return memory_of(keys, run, groups, Blocks::all, first - 1) != nullptr;
         }))
    --first;
  return first;
}

std::size_t wanted_from(const CachePart& part, const StoredRun& run, std::size_t groups) {
  std::size_t first = 0;
  while (first < run.blocks.size() / groups &&
         std::ranges::none_of(part.keys, [&](const CachePart::Keys& keys) {
           return memory_of(keys, run, groups, Blocks::owned, first) != nullptr;
         }))
    ++first;
  return first;
}

void copy_from_cache(const CachePart& part, const StoredRun& run, std::size_t groups, std::size_t first,
                     std::span<std::byte> values) {
  for_pieces(part, run, groups, Blocks::all, first, [&](const std::byte* memory, std::size_t bytes) {
    std::memcpy(values.data(), memory, bytes);
    values = values.subspan(bytes);
  });
}

void copy_to_cache(const CachePart& part, const StoredRun& run, std::size_t groups, std::size_t first,
                   std::span<const std::byte> values) {
  for_pieces(part, run, groups, Blocks::owned, first, [&](std::byte* memory, std::size_t bytes) {
    if (memory != nullptr) std::memcpy(memory, values.data(), bytes);
    values = values.subspan(bytes);
  });
}

}  // namespace tp
