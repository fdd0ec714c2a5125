// Decoding with one copy of the cache per host and with a copy on each rank, alternately. The cache is filled
// without computing a prompt. The logits of both are compared first: they have the same bits. The bound of a
// step is the larger of reading a rank's part of the cache and multiplying it by the queries, at rates that
// all ranks measure at the same time before each measurement.
//
//   mpirun -np 2 build/bin/bench_kv_slices [--latents] [--context 32768] [--sequences 1] [--pairs 12]

#include "bench/filled_cache.h"
#include "bench/on_ranks.h"
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/rates/peak_rates.h"
#include "parallel/exchange/collectives.h"

#include <utility>

namespace tp {
namespace {

struct Options : bench::FilledOptions {
  bool latents = false;
  std::size_t heads = 8;
};

// Returns four layers with Gemma 2B's or DeepSeek's attention and only few other weights.
CheckpointConfig config_of(const Options& options) {
  CheckpointConfig config = bench::attention_config(
      options.latents ? "DeepseekV3ForCausalLM" : "LlamaForCausalLM", options, options.latents);
  config.num_attention_heads = options.heads;
  config.num_key_value_heads = options.latents ? options.heads : 1;
  config.head_dim = 256;
  config.hidden_size = 256;
  if (options.latents) config.latent.q_lora_rank = 256;
  return config;
}

// Returns a lower bound of a rank's seconds for attention. `ranks`: number of ranks that divide the cache.
double bound_of(const Options& options, const kernels::KvLayout& layout, double layers, std::size_t ranks,
                std::size_t heads) {
  const PeakRates rates = local_peak_rates();
  const double positions = static_cast<double>(options.context * options.sequences) * layers;
  const double bytes =
      positions / static_cast<double>(layout.block_size * ranks) * static_cast<double>(layout.block_bytes());
  const double operations =
      2.0 * positions * static_cast<double>((layout.key_dim + layout.value_dim) * heads);
  return std::max(bytes / rates.streaming_bytes_per_second,
                  operations / std::max(rates.bf16_per_second, rates.f32_per_second));
}

void measure(Communicator& comm, const Options& options) {
  omp_set_num_threads(1);
  const ModelSpec spec = make_spec(config_of(options));
  bench::Decoder decoder(comm, spec, options);
  const bench::FilledCache on(comm, spec, decoder.model(), options, true);
  const bench::FilledCache off(comm, spec, decoder.model(), options, false);
  bench::require_same_bits(decoder.step(on), decoder.step(off));
  std::vector<double> shares_on;
  std::vector<double> shares_off;
  const auto timed = [&](const bench::FilledCache& cache, std::size_t ranks, std::vector<double>& shares) {
    barrier(comm);
    const double bound = bound_of(options, off.get().layer(0).layout, static_cast<double>(spec.blocks.size()),
                                  ranks, options.heads / comm.size());
    const double seconds = decoder.seconds(cache);
    shares.push_back(bound / seconds);
    return seconds;
  };
  const Pairs pairs = measure_pairs(
      options.pairs, [&] { return timed(on, comm.size(), shares_on); },
      [&] { return timed(off, 1, shares_off); });
  if (!comm.is_root()) return;
  fmt::print("off {:.2f} ms, on {:.2f} ms, off/on {}\n", 1e3 * pairs.other.median, 1e3 * pairs.one.median,
             bench::with_bounds(pairs.ratio, 2));
  for (const auto& [setting, shares] : {std::pair("off", shares_off), std::pair("on", shares_on)})
    fmt::print("{}: {} of the bound\n", setting, bench::with_bounds(interval_of(shares), 2));
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("Decoding with one copy of the cache per host");
  tp::Options options;
  app.add_flag("--latents", options.latents, "DeepSeek's attention instead of Gemma 2B's");
  app.add_option("--heads", options.heads, "Query heads")->check(CLI::PositiveNumber);
  tp::bench::add_options(app, options);
  return tp::bench::run_on_ranks("bench_kv_slices", app, argc, argv,
                                 [&](tp::Communicator& comm) { tp::measure(comm, options); });
}
