#include "runtime/plan/rank_shape.h"

#include "parallel/exchange/wire_format.h"

#include <algorithm>
#include <variant>

namespace tp {
namespace {

// Counts three multiplications for every element of the heads' state matrices.
std::size_t products_of(const GatedDeltaNetSpec& spec, std::size_t heads) {
  return 3 * heads * spec.key_head_dim * spec.value_head_dim;
}

// A state is read once for the update and the result.
std::size_t products_of(const MambaSpec& spec, std::size_t heads) {
  return 2 * heads * spec.head_dim * spec.state_size;
}

// An exponential counts as eight multiplications. `units`: units of channels.
std::size_t products_of(const Mamba1Spec& spec, std::size_t units) {
  constexpr std::size_t kPerElement = 8 + 3;
  return kPerElement * units * spec.unit() * spec.state_size;
}

// Every element of the heads' matrices is multiplied to read, to decay, to remove, to add and to see.
std::size_t products_of(const Rwkv7Spec& spec, std::size_t heads) {
  return 5 * heads * spec.head_dim * spec.head_dim;
}

std::size_t products_of(const ShortConvolutionSpec& spec, std::size_t channels) {
  return channels * (spec.conv_kernel + 2);
}

// A token reads the matrices of the last anchor and, on average, half of what has come since. Every 16th
// token also writes the matrices. Together, that is as much as a whole state.
constexpr double kScanPasses = 1.0;

// `passes`: how often a token reads or writes the state.
AttentionShape recurrent_shape(std::size_t products, std::size_t state_floats, double passes) {
  return {.layers = 1,
          .window = 1,
          .bytes_per_sequence = passes * static_cast<double>(state_floats * sizeof(float)),
          .multiplications = static_cast<double>(products)};
}

// The number of tokens that a token sees does not depend on the sequence's length, and nothing is cached.
AttentionShape hashed_shape(const LshAttentionSpec& spec, std::size_t heads) {
  const std::size_t seen = (spec.chunks_before + 1 + spec.chunks_after) * spec.chunk_length * spec.num_hashes;
  return {.layers = 1,
          .window = seen,
          .bytes_per_position = 0.0,
          .multiplications = static_cast<double>(2 * heads * spec.head_dim)};
}

// Ranks that keep one copy divide the reading of long contexts. `kv_heads`: the part of the KV heads that the
// rank reads.
AttentionShape shape_of_layer(const kernels::KvLayout& layout, double kv_heads, std::size_t heads,
                              CacheWindow window, bool chunked) {
  return {.layers = 1,
          .window = window,
          .chunked = chunked,
          .bytes_per_position =
              kv_heads * static_cast<double>(layout.head_bytes()) / static_cast<double>(layout.block_size),
          .multiplications = static_cast<double>(heads * (layout.key_dim + layout.value_dim)) /
                             static_cast<double>(layout.pools_latents ? layout.index_pool : 1)};
}

// The window of compressed attention, whose latents are floats in the layer's state.
AttentionShape window_shape(const CompressedAttentionSpec& spec, std::size_t heads) {
  return {.layers = 1,
          .window = spec.window,
          .bytes_per_position = static_cast<double>(spec.head_dim * sizeof(float)),
          .multiplications = static_cast<double>(2 * heads * spec.head_dim)};
}

bool is_chunked(const AttentionPartSpec& part) {
  const auto* const attention = std::get_if<AttentionSpec>(&part);
  return attention != nullptr && attention->pattern.chunk && !attention->pattern.window;
}

// Adds a layer, or counts it as one more layer of its kind.
void add_layer(const AttentionShape& shape, std::vector<AttentionShape>& shapes) {
  const auto same = std::ranges::find_if(shapes, [&](const AttentionShape& other) {
    return other.window == shape.window && other.chunked == shape.chunked &&
           other.bytes_per_position == shape.bytes_per_position &&
           other.bytes_per_sequence == shape.bytes_per_sequence &&
           other.multiplications == shape.multiplications;
  });
  if (same == shapes.end())
    shapes.push_back(shape);
  else
    same->layers += 1;
}

// The scores of an indexer. `owned`: the rank's share of the positions.
AttentionShape indexer_shape(const IndexerSpec& indexer, const kernels::KvLayout& layout, double owned) {
  return {.layers = 1,
          .bytes_per_position = owned * static_cast<double>(layout.index_panel_bytes()) /
                                static_cast<double>(kernels::KvLayout::kPanel * indexer.pool),
          .multiplications = owned * static_cast<double>(indexer.num_heads * indexer.head_dim) /
                             static_cast<double>(indexer.pool)};
}

// The scores of an indexer of blocks. A rank reads one copy of the index keys for all its index heads.
AttentionShape indexer_shape(const BlockIndexerSpec& indexer, const kernels::KvLayout& layout) {
  return {.layers = 1,
          .bytes_per_position = static_cast<double>(layout.index_panel_bytes()) /
                                static_cast<double>(kernels::KvLayout::kPanel),
          .multiplications = static_cast<double>(layout.kv_heads * indexer.head_dim)};
}

// The scores of an indexer of pools, whose heads every rank has.
AttentionShape indexer_shape(const PooledIndexerSpec& indexer, const kernels::KvLayout& layout) {
  return {.layers = 1,
          .bytes_per_position = static_cast<double>(layout.index_panel_bytes()) /
                                static_cast<double>(kernels::KvLayout::kPanel * indexer.pool),
          .multiplications =
              static_cast<double>(indexer.num_heads * indexer.head_dim) / static_cast<double>(indexer.pool)};
}

// The positions that attention reads in a layer, if an indexer chooses them.
CacheWindow chosen_positions(const BlockSpec& block) {
  if (const IndexerSpec* const indexer = indexer_of(block)) return indexer->max_positions();
  if (const BlockIndexerSpec* const indexer = block_indexer_of(block)) return indexer->max_positions();
  if (const PooledIndexerSpec* const indexer = pooled_indexer_of(block)) return indexer->max_positions();
  return std::nullopt;
}

// Returns one entry per kind of layer, in the order of first appearance.
std::vector<AttentionShape> attention_of(const ModelSpec& spec, const EnginePlan& plan, const Model& model,
                                         const CacheGroups& groups, TpRank tp, Stage stage) {
  const Range layers = stage.layers(spec.blocks.size());
  const CacheSlices slices = plan.cache_slices(spec, stage, tp, kNominalBlocks);
  const std::vector<kernels::KvLayout> layouts = model.kv_layouts(plan.kv_type(), plan.options.block_size);
  const std::vector<std::size_t> states = model.state_floats();
  std::vector<AttentionShape> shapes;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const BlockSpec& block = spec.blocks[layers.begin + layer];
    if (block.parallel_mixer) {
      const std::size_t heads = owned_heads(*block.parallel_mixer, tp).local_heads();
      add_layer(recurrent_shape(products_of(*block.parallel_mixer, heads), states[layer], kScanPasses),
                shapes);
    }
    const AttentionPartSpec& part = block.attention;
    if (std::holds_alternative<NoPartSpec>(part)) continue;
    const std::size_t heads = owned_heads(part, tp).local_heads();
    const auto* const recurrence = std::get_if<GatedDeltaNetSpec>(&part);
    const auto* const convolution = std::get_if<ShortConvolutionSpec>(&part);
    const auto* const mixer = std::get_if<MambaSpec>(&part);
    const auto* const channels = std::get_if<Mamba1Spec>(&part);
    const auto* const rwkv = std::get_if<Rwkv7Spec>(&part);
    const auto& place = groups.places[layers.begin + layer];
    const auto* const hashed = std::get_if<LshAttentionSpec>(&part);
    const IndexerSpec* const indexer = indexer_of(block);
    const CacheWindow chosen = chosen_positions(block);
    const CacheWindow window = chosen ? chosen : place ? groups.windows[place->group] : std::nullopt;
    const double owned = slices.owned_heads(layer, layouts[layer].kv_heads);
    // Every rank reads all pools of compressed attention.
    const bool reads_all = window || layouts[layer].pools_latents;
    const double kv_heads = reads_all ? static_cast<double>(layouts[layer].kv_heads) : owned;
    const AttentionShape shape =
        recurrence != nullptr ? recurrent_shape(products_of(*recurrence, heads), states[layer], kScanPasses)
        : convolution != nullptr ? recurrent_shape(products_of(*convolution, heads), states[layer], 2.0)
        : mixer != nullptr       ? recurrent_shape(products_of(*mixer, heads), states[layer], kScanPasses)
        : channels != nullptr    ? recurrent_shape(products_of(*channels, heads), states[layer], 2.0)
        : rwkv != nullptr        ? recurrent_shape(products_of(*rwkv, heads), states[layer], 2.0)
        : hashed != nullptr      ? hashed_shape(*hashed, heads)
                                 : shape_of_layer(layouts[layer], kv_heads, heads, window, is_chunked(part));
    add_layer(shape, shapes);
    if (layouts[layer].pools_latents)
      add_layer(window_shape(std::get<CompressedAttentionSpec>(part), heads), shapes);
    if (indexer != nullptr && !indexer->is_shared)
      add_layer(indexer_shape(*indexer, layouts[layer], owned), shapes);
    if (const BlockIndexerSpec* const of_blocks = block_indexer_of(block))
      add_layer(indexer_shape(*of_blocks, layouts[layer]), shapes);
    if (const PooledIndexerSpec* const of_pools = pooled_indexer_of(block))
      add_layer(indexer_shape(*of_pools, layouts[layer]), shapes);
  }
  return shapes;
}

// Bytes on the wire, relative to float32.
double wire_share(WireType type) {
  return static_cast<double>(wire_bytes(type, kWireGroup)) /
         static_cast<double>(wire_bytes(WireType::f32, kWireGroup));
}

}  // namespace

HeadShard owned_heads(const AttentionPartSpec& attention, TpRank tp) {
  const HeadCounts counts = head_counts(attention);
  return is_recurrent(attention) ? shard_heads_of_some(counts.heads, counts.kv_heads, tp, counts.granule)
                                 : shard_heads(counts.heads, counts.kv_heads, tp);
}

RankShape shape_of_rank(const ModelSpec& spec, const EnginePlan& plan, const WeightSource& source, TpRank tp,
                        Stage stage) {
  const Footprint footprint(spec, plan, source);
  const Model model = Model::shape_of(spec, source, tp, plan.weights(), stage);
  RankShape shape{.need = footprint.of(tp, {}, stage),
                  .work = model.work(1),
                  .attention = attention_of(spec, plan, model, footprint.groups(), tp, stage),
                  .wire_share = wire_share(plan.options.wire)};
  for (const BlockSpec& block : spec.blocks) {
    if (const MixtureOfExpertsSpec* const experts = experts_in(block)) {
      shape.experts = experts->router.num_experts;
      shape.experts_per_token = experts->router.num_experts_per_tok;
    }
  }
  return shape;
}

}  // namespace tp
