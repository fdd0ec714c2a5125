// Decoding with attention to the positions that an indexer chooses (sparse) and to all positions without an
// indexer (dense), alternately, over the same cache, which is filled without computing a prompt. First, an
// indexer that may choose all positions must give the bits of dense attention, and one that may choose some
// must choose the highest scores.
//
//   mpirun -np 2 build/bin/bench_indexer [--context 65536] [--index-topk 2048] [--sequences 1] [--pairs 12]

#include "bench/filled_cache.h"
#include "bench/index_check.h"
#include "bench/on_ranks.h"
#include "model/config/architectures.h"
#include "model/config/config.h"

namespace tp {
namespace {

struct Options : bench::FilledOptions {
  std::size_t top_k = 2048;
  std::size_t hidden_size = 7168;
};

// Returns four layers with DeepSeek-V3.2's attention and only few other weights.
CheckpointConfig config_of(const Options& options) {
  CheckpointConfig config = bench::attention_config("DeepseekV3ForCausalLM", options, true);
  config.num_attention_heads = 128;
  config.num_key_value_heads = 128;
  config.hidden_size = options.hidden_size;
  config.latent.q_lora_rank = 1536;
  return config;
}

// Adds an indexer to every layer.
ModelSpec indexed_spec(const Options& options, std::size_t top_k) {
  CheckpointConfig config = config_of(options);
  config.architecture = "DeepseekV32ForCausalLM";
  config.indexer.topk = top_k;
  config.indexer.n_heads = 64;
  config.indexer.head_dim = 128;
  return make_spec(config);
}

// Verifies a short context with repeated index keys, also across ranks: among equal scores, the earlier
// positions must be chosen.
void verify_sparse_choices(Communicator& comm, const Options& options, const Model& sparse) {
  constexpr std::size_t kContext = 4096;
  Options few = options;
  few.context = std::min(options.context, std::max(kContext, 2 * options.top_k));
  few.sequences = 1;
  few.index_keys = std::max<std::size_t>(1, few.context * 3 / 8);
  if (few.context < options.top_k) return;  // all positions would be chosen
  bench::verify_choices(comm, indexed_spec(options, options.top_k), sparse, few);
}

void measure(Communicator& comm, const Options& options) {
  omp_set_num_threads(1);
  const ModelSpec spec = indexed_spec(options, options.top_k);
  bench::Decoder sparse(comm, spec, options);
  bench::Decoder dense(comm, make_spec(config_of(options)), options);
  const bench::FilledCache cache(comm, spec, sparse.model(), options, true);
  {
    bench::Decoder all(comm, indexed_spec(options, options.context + 1), options);
    bench::require_same_bits(all.step(cache), dense.step(cache));
  }
  verify_sparse_choices(comm, options, sparse.model());
  const Pairs pairs = measure_pairs(
      options.pairs, [&] { return sparse.seconds(cache); }, [&] { return dense.seconds(cache); });
  if (!comm.is_root()) return;
  fmt::print("dense {:.2f} ms, sparse {:.2f} ms, dense/sparse {}\n", 1e3 * pairs.other.median,
             1e3 * pairs.one.median, bench::with_bounds(pairs.ratio, 2));
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("Decoding with attention to chosen positions");
  tp::Options options;
  options.context = 65536;
  app.add_option("--index-topk", options.top_k, "Positions that an indexer chooses")
      ->check(CLI::PositiveNumber);
  app.add_option("--hidden-size", options.hidden_size, "Size of the hidden state")
      ->check(CLI::PositiveNumber);
  tp::bench::add_options(app, options);
  return tp::bench::run_on_ranks("bench_indexer", app, argc, argv,
                                 [&](tp::Communicator& comm) { tp::measure(comm, options); });
}
