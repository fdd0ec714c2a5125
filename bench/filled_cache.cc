#include "bench/filled_cache.h"

#include "bench/harness.h"
#include "model/config/spec.h"
#include "model/kernels/index_keys.h"
#include "model/memory/cache_slices.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/placement.h"
#include "tests/reference/random.h"
#include "tp/internal/require.h"

#include <cstring>
#include <ctime>

namespace tp::bench {
namespace {

using reference::Random;
using reference::RandomTensor;

constexpr std::size_t kBlockSize = FilledCache::kBlockSize;
constexpr std::size_t kTogether = 16;  // blocks of a split

// Returns the number of blocks of a sequence, rounded up so that every owner has whole splits.
std::size_t blocks_of(std::size_t context, std::size_t owners) {
  const std::size_t granule = kTogether * owners;
  return (context / kBlockSize + granule) / granule * granule;
}

}  // namespace

void add_options(CLI::App& app, FilledOptions& options) {
  app.add_option("--context", options.context, "Tokens of each sequence")->check(CLI::PositiveNumber);
  app.add_option("--sequences", options.sequences, "Sequences that are decoded together")
      ->check(CLI::PositiveNumber);
  add_pairs(app, options.pairs);
  app.add_option("--steps", options.steps, "Steps of a measurement")->check(CLI::PositiveNumber);
  app.add_flag("--cpu-time", options.cpu_time, "Processor time instead of the clock's");
}

FilledCache::FilledCache(Communicator& comm, const ModelSpec& spec, const Model& model,
                         const FilledOptions& options, bool slices)
    : options_(options),
      blocks_(blocks_of(options.context, comm.size())),
      cache_(model.kv_layouts(KvType::bf16, kBlockSize), CacheGroups::one(spec.blocks.size()),
             blocks_ * options.sequences, {}, host(comm, spec, model, slices)) {
  for (std::size_t sequence = 0; sequence < options.sequences; ++sequence)
    tables_.push_back(table_of(sequence, comm.size()));
  for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer) fill(layer);
  barrier(comm);
}

HostCache FilledCache::host(Communicator& comm, const ModelSpec& spec, const Model& model,
                            bool slices) const {
  if (!slices || comm.size() == 1) return {};
  const std::vector<std::size_t>& ranks = comm.placement().own_host();
  const std::size_t blocks = blocks_ * options_.sequences;
  HostCache host{
      .slices = CacheSlices::of(spec, {0, spec.blocks.size()}, {comm.rank(), comm.size()}, ranks, blocks),
      .max_blocks = blocks_};
  std::string why;
  const std::size_t bytes = host.region_bytes(model.kv_layouts(KvType::bf16, kBlockSize),
                                              CacheGroups::one(spec.blocks.size()), blocks);
  host.region = HostRegion::create(comm, ranks, bytes, why);
  require<ConfigError>(host.region != nullptr, "cannot measure shared caches: {}; use another host", why);
  return host;
}

// Assigns splits to the owners in turn, like BlockManager.
std::vector<std::int32_t> FilledCache::table_of(std::size_t sequence, std::size_t owners) const {
  const std::size_t all = blocks_ * options_.sequences;
  std::vector<std::int32_t> table;
  for (std::size_t i = 0; i < blocks_; ++i) {
    const std::size_t split = (i + sequence * blocks_) / kTogether;
    table.push_back(static_cast<std::int32_t>(split % owners * (all / owners) + split / owners * kTogether +
                                              i % kTogether));
  }
  return table;
}

std::vector<float> FilledCache::index_key(std::size_t layer, std::size_t sequence,
                                          std::size_t position) const {
  const std::size_t place = position % options_.index_keys;
  return Random((layer << 56) + (sequence << 40) + place).numbers(cache_.layer(layer).layout.index_dim);
}

void FilledCache::fill_index_keys(std::size_t layer, std::size_t sequence,
                                  const kernels::AttentionSpan& span) const {
  const kernels::PagedCache& cache = cache_.layer(layer);
  const std::size_t pool = cache.layout.index_pool;
  for (std::size_t key = span.start_position / pool; key < span.keys() / pool; ++key)
    kernels::store_index_key(index_key(layer, sequence, key).data(), key, span.block_table, cache);
}

void fill_pools(TensorView<const float> latents, const kernels::AttentionSpan& span,
                const kernels::PagedCache& cache) {
  const std::size_t pool = cache.layout.index_pool;
  for (std::size_t number = span.start_position / pool; number < span.keys() / pool; ++number)
    kernels::store_pool_latent(latents.row(number % latents.rows()), number, span.block_table, cache);
}

// Keys and values repeat after some positions. Index keys don't, because their scores should differ.
void FilledCache::fill(std::size_t layer) {
  constexpr std::size_t kRows = 512;
  const kernels::PagedCache& cache = cache_.layer(layer);
  const kernels::KvLayout& layout = cache.layout;
  Random random(9 + layer);
  const RandomTensor key(random, kRows, layout.kv_heads * layout.stored_key_dim());
  const RandomTensor value(random, kRows, layout.kv_heads * layout.value_dim);
  for (std::size_t sequence = 0; sequence < tables_.size(); ++sequence) {
    for (std::size_t begin = 0; begin < options_.context; begin += kRows) {
      const std::size_t rows = std::min(kRows, options_.context - begin);
      const std::vector<kernels::AttentionSpan> spans = {{0, rows, begin, tables_[sequence]}};
      if (layout.pools_latents)
        fill_pools(value.view(), spans.front(), cache);
      else
        kernels::store_keys_values(key.view().rows_from(0, rows), value.view().rows_from(0, rows), spans,
                                   cache);
      fill_index_keys(layer, sequence, spans.front());
      if (cache_.shared(layer) != nullptr) use_huge_pages(*cache_.shared(layer), spans);
    }
  }
}

std::vector<float> logits_of(Model& model, Communicator& comm, const Batch& batch, const FilledCache& cache,
                             Workspace& workspace) {
  std::vector<float> logits;
  model.forward(comm, batch, cache.get(), workspace, [&](std::size_t, TensorView<const float> rows) {
    for (std::size_t row = 0; row < rows.rows(); ++row)
      logits.insert(logits.end(), rows.row(row), rows.row(row) + rows.columns());
  });
  return logits;
}

CheckpointConfig attention_config(const char* architecture, const FilledOptions& options, bool latents) {
  CheckpointConfig config;
  config.architecture = architecture;
  config.intermediate_size = 256;
  config.num_hidden_layers = 4;
  config.vocab_size = 256;
  config.max_position_embeddings = options.context + 1024;
  config.torch_dtype = DType::bf16;
  if (!latents) return config;
  config.latent.kv_lora_rank = 512;
  config.latent.qk_nope_head_dim = 128;
  config.latent.qk_rope_head_dim = 64;
  config.latent.v_head_dim = 128;
  config.experts.first_k_dense_replace = config.num_hidden_layers;
  return config;
}

Decoder::Decoder(Communicator& comm, const ModelSpec& spec, const FilledOptions& options)
    : Decoder(comm, spec, options, SyntheticWeights(DType::bf16, 3), WeightType::bf16) {}

Decoder::Decoder(Communicator& comm, const ModelSpec& spec, const FilledOptions& options,
                 const WeightSource& weights, WeightType type)
    : comm_(comm),
      options_(options),
      model_(spec, weights, {comm.rank(), comm.size()}, type),
      workspace_(model_.workspace_floats({.tokens = options.sequences,
                                          .outputs = options.sequences,
                                          .kv_type = KvType::bf16,
                                          .block_size = kBlockSize,
                                          .max_blocks = blocks_of(options.context, comm.size())})) {}

std::vector<float> Decoder::step(const FilledCache& cache) {
  Batch batch;
  for (std::size_t sequence = 0; sequence < options_.sequences; ++sequence) {
    batch.spans[0].push_back({sequence, 1, options_.context, cache.tables()[sequence]});
    batch.tokens.push_back(static_cast<TokenId>(sequence % 200));
    batch.positions.push_back(options_.context);
    batch.output_rows.push_back(sequence);
  }
  batch.states.resize(options_.sequences);
  batch.adapters = adapters_;
  return logits_of(model_, comm_, batch, cache, workspace_);
}

double Decoder::seconds(const FilledCache& cache) {
  barrier(comm_);
  const Stopwatch watch;
  const std::clock_t begin = std::clock();
  for (std::size_t i = 0; i < options_.steps; ++i) step(cache);
  const auto used = static_cast<std::int64_t>(std::clock() - begin);
  const auto max = static_cast<double>(max_over_ranks(comm_, used)) / CLOCKS_PER_SEC;
  return (options_.cpu_time ? max : watch.seconds()) / static_cast<double>(options_.steps);
}

void require_same_bits(const std::vector<float>& one, const std::vector<float>& other) {
  require<CommError>(
      one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0,
      "logits differ: expected the same bits both ways; fix this before measuring");
}

}  // namespace tp::bench
