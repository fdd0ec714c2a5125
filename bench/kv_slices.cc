// Decoding with one copy of the cache per host and with a copy on each rank, alternately. The cache is filled
// without computing a prompt. The logits of both are compared first: they have the same bits. The bound of a
// step is the larger of reading a rank's part of the cache and multiplying it by the queries, at rates that
// all ranks measure at the same time, before each pair.
//
//   mpirun -np 2 build/bin/bench_kv_slices [--latents] [--context 32768] [--sequences 1] [--pairs 12]

#include "bench/interval.h"
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/memory/cache_slices.h"
#include "model/memory/kv_cache.h"
#include "model/memory/workspace.h"
#include "model/rates/peak_rates.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/mpi_session.h"
#include "parallel/exchange/placement.h"
#include "parallel/machine/stopwatch.h"
#include "tests/reference/random.h"
#include "tp/internal/require.h"
#include "tp/mpi.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <omp.h>

namespace tp {
namespace {

constexpr std::size_t kBlockSize = 32;

struct Options {
  bool latents = false;
  std::size_t heads = 8;
  std::size_t context = 32768;  // tokens of each sequence in the cache
  std::size_t sequences = 1;
  std::size_t pairs = 12;
  std::size_t steps = 4;  // decoded tokens that are timed together
  bool cpu_time = false;
};

// Four layers of Gemma 2B's or DeepSeek's attention, with hardly any other weights.
CheckpointConfig config_of(const Options& options) {
  CheckpointConfig config;
  config.architecture = options.latents ? "DeepseekV3ForCausalLM" : "LlamaForCausalLM";
  config.num_attention_heads = options.heads;
  config.num_key_value_heads = options.latents ? options.heads : 1;
  config.head_dim = 256;
  config.hidden_size = 256;
  config.intermediate_size = 256;
  config.num_hidden_layers = 4;
  config.vocab_size = 256;
  config.max_position_embeddings = options.context + 1024;
  config.torch_dtype = DType::bf16;
  if (options.latents) {
    config.q_lora_rank = 256;
    config.kv_lora_rank = 512;
    config.qk_nope_head_dim = 128;
    config.qk_rope_head_dim = 64;
    config.v_head_dim = 128;
    config.first_k_dense_replace = 4;
  }
  return config;
}

// A model whose sequences have `context` tokens of random keys and values.
class Decoder {
 public:
  Decoder(Communicator& comm, const ModelSpec& spec, const Options& options, bool slices)
      : comm_(comm),
        options_(options),
        spec_(spec),
        tp_{comm.rank(), comm.size()},
        model_(spec, SyntheticWeights(DType::bf16, 3), tp_, WeightType::bf16),
        blocks_(blocks_of(options.context, comm.size())),
        cache_(layouts(), CacheGroups::one(spec.blocks.size()), blocks_ * options.sequences, {},
               host(slices)),
        workspace_(model_.workspace_floats({.tokens = options.sequences,
                                            .outputs = options.sequences,
                                            .kv_type = KvType::bf16,
                                            .block_size = kBlockSize,
                                            .max_blocks = blocks_})) {
    for (std::size_t s = 0; s < options.sequences; ++s) tables_.push_back(table_of(s));
    for (std::size_t layer = 0; layer < spec.blocks.size(); ++layer)
      fill(cache_.layer(layer), cache_.shared(layer));
    barrier(comm);
  }

  // Decodes one token of each sequence at the end of its context; the rank's logits.
  std::vector<float> step() {
    Batch batch;
    batch.spans.resize(1);
    for (std::size_t s = 0; s < options_.sequences; ++s) {
      batch.spans[0].push_back({s, 1, options_.context, tables_[s]});
      batch.tokens.push_back(static_cast<TokenId>(s % 200));
      batch.positions.push_back(options_.context);
      batch.output_rows.push_back(s);
    }
    batch.states.resize(options_.sequences);
    std::vector<float> logits;
    model_.forward(comm_, batch, cache_, workspace_, [&](std::size_t, TensorView<const float> rows) {
      for (std::size_t row = 0; row < rows.rows(); ++row)
        logits.insert(logits.end(), rows.row(row), rows.row(row) + rows.columns());
    });
    return logits;
  }

  // Seconds of a step: of the clock, or of the processor on the rank that computes longest. Processor time is
  // meaningful if other programs run on the same cores, too.
  double seconds() {
    barrier(comm_);
    const Stopwatch watch;
    const std::clock_t begin = std::clock();
    for (std::size_t i = 0; i < options_.steps; ++i) step();
    const auto used = static_cast<std::int64_t>(std::clock() - begin);
    const auto most = static_cast<double>(max_over_ranks(comm_, used)) / CLOCKS_PER_SEC;
    return (options_.cpu_time ? most : watch.seconds()) / static_cast<double>(options_.steps);
  }

  // Bytes that a rank reads in a step. `ranks`: those that divide the cache.
  double bytes(std::size_t ranks) const {
    const kernels::KvLayout layout = layouts().front();
    const double positions = static_cast<double>(options_.context * options_.sequences);
    return positions / static_cast<double>(layout.block_size * ranks) *
           static_cast<double>(layout.block_bytes() * spec_.blocks.size());
  }
  // Multiplications and additions of a rank in a step.
  double operations() const {
    const kernels::KvLayout layout = layouts().front();
    const double positions = static_cast<double>(options_.context * options_.sequences);
    return 2.0 * positions * static_cast<double>((layout.key_dim + layout.value_dim) * spec_.blocks.size()) *
           static_cast<double>(options_.heads) / static_cast<double>(comm_.size());
  }

 private:
  static constexpr std::size_t kTogether = 16;  // blocks of a split

  // Whole splits of each owner.
  static std::size_t blocks_of(std::size_t context, std::size_t owners) {
    const std::size_t granule = kTogether * owners;
    return (context / kBlockSize + granule) / granule * granule;
  }

  std::vector<kernels::KvLayout> layouts() const { return model_.kv_layouts(KvType::bf16, kBlockSize); }

  HostCache host(bool slices) const {
    if (!slices) return {};
    const std::size_t blocks = blocks_ * options_.sequences;
    HostCache host{
        .slices = CacheSlices::of(spec_, {0, spec_.blocks.size()}, tp_, comm_.placement().own_host(), blocks),
        .max_blocks = blocks_};
    std::string why;
    const std::size_t bytes = host.region_bytes(layouts(), CacheGroups::one(spec_.blocks.size()), blocks);
    host.region = HostRegion::create(comm_, comm_.placement().own_host(), bytes, why);
    require<ConfigError>(host.region != nullptr, "cannot measure shared caches: {}; use another host", why);
    return host;
  }

  // Splits of different owners in turn, as BlockManager gives them.
  std::vector<std::int32_t> table_of(std::size_t sequence) const {
    const std::size_t all = blocks_ * options_.sequences;
    const std::size_t runs = comm_.size();
    std::vector<std::int32_t> table;
    for (std::size_t i = 0; i < blocks_; ++i) {
      const std::size_t split = (i + sequence * blocks_) / kTogether;
      table.push_back(
          static_cast<std::int32_t>(split % runs * (all / runs) + split / runs * kTogether + i % kTogether));
    }
    return table;
  }

  void fill(const kernels::PagedCache& cache, const SharedLayer* shared) {
    constexpr std::size_t kRows = 512;
    reference::Random random(9);
    const kernels::KvLayout& layout = cache.layout;
    const reference::RandomTensor key(random, kRows, layout.kv_heads * layout.stored_key_dim());
    const reference::RandomTensor value(random, kRows, layout.kv_heads * layout.value_dim);
    for (const std::vector<std::int32_t>& table : tables_) {
      for (std::size_t begin = 0; begin < options_.context; begin += kRows) {
        const std::size_t rows = std::min(kRows, options_.context - begin);
        const std::vector<kernels::AttentionSpan> spans = {{0, rows, begin, table}};
        kernels::store_keys_values(key.view().rows_from(0, rows), value.view().rows_from(0, rows), spans,
                                   cache);
        if (shared != nullptr) use_huge_pages(*shared, spans);
      }
    }
  }

  Communicator& comm_;
  const Options& options_;
  const ModelSpec& spec_;
  TpRank tp_;
  Model model_;
  std::size_t blocks_;  // of a sequence
  KvCache cache_;
  Workspace workspace_;
  std::vector<std::vector<std::int32_t>> tables_;
};

// Seconds in which a rank could at best attend, by this rank's rates now.
double bound_of(const Decoder& decoder, const PeakRates& rates, std::size_t ranks) {
  return std::max(decoder.bytes(ranks) / rates.streaming_bytes_per_second,
                  decoder.operations() / std::max(rates.bf16_per_second, rates.f32_per_second));
}

void print_bound(const char* setting, std::vector<double> shares) {
  const Interval share = interval_of(std::move(shares));
  fmt::print("{}: {:.2f} [{:.2f}, {:.2f}] of the bound\n", setting, share.median, share.low, share.high);
}

void measure(Communicator& comm, const Options& options) {
  omp_set_num_threads(1);
  const ModelSpec spec = make_spec(config_of(options));
  Decoder on(comm, spec, options, true);
  Decoder off(comm, spec, options, false);
  const std::vector<float> one = on.step();
  const std::vector<float> other = off.step();
  require<CommError>(
      one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0,
      "logits differ: expected the same bits with and without one copy of the cache");
  std::vector<double> ratios;
  std::vector<double> seconds_on;
  std::vector<double> seconds_off;
  std::vector<double> shares_on;
  std::vector<double> shares_off;
  for (std::size_t pair = 0; pair < options.pairs; ++pair) {
    const bool first = pair % 2 == 0;
    barrier(comm);
    const PeakRates rates = local_peak_rates();
    const double before = first ? on.seconds() : off.seconds();
    const double after = first ? off.seconds() : on.seconds();
    seconds_on.push_back(first ? before : after);
    seconds_off.push_back(first ? after : before);
    ratios.push_back(seconds_off.back() / seconds_on.back());
    shares_on.push_back(bound_of(on, rates, comm.size()) / seconds_on.back());
    shares_off.push_back(bound_of(off, rates, 1) / seconds_off.back());
  }
  if (!comm.is_root()) return;
  const Interval ratio = interval_of(ratios);
  fmt::print("off {:.2f} ms, on {:.2f} ms, off/on {:.2f} [{:.2f}, {:.2f}]\n",
             1e3 * interval_of(seconds_off).median, 1e3 * interval_of(seconds_on).median, ratio.median,
             ratio.low, ratio.high);
  print_bound("off", shares_off);
  print_bound("on", shares_on);
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("Decoding with one copy of the cache per host");
  tp::Options options;
  app.add_flag("--latents", options.latents, "DeepSeek's attention instead of Gemma 2B's");
  app.add_option("--heads", options.heads, "Query heads")->check(CLI::PositiveNumber);
  app.add_option("--context", options.context, "Tokens of each sequence")->check(CLI::PositiveNumber);
  app.add_option("--sequences", options.sequences, "Sequences that are decoded together")
      ->check(CLI::PositiveNumber);
  app.add_option("--pairs", options.pairs, "Alternating measurements of both")->check(CLI::Range(12, 10000));
  app.add_option("--steps", options.steps, "Steps of a measurement")->check(CLI::PositiveNumber);
  app.add_flag("--cpu-time", options.cpu_time, "Processor time instead of the clock's");
  CLI11_PARSE(app, argc, argv);
  try {
    const tp::MpiSession session;
    tp::Communicator comm(MPI_COMM_WORLD);
    tp::measure(comm, options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_kv_slices: {}\n", error.what());
    tp::MpiSession::abort(1);
  }
}
