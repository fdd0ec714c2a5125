// Decoding with adapters and without, alternately, in the shape of Llama-3.1-8B cut to a few layers: the
// sequences use several adapters of all seven projections in turn. First, each sequence must get the logits
// that it gets beside sequences of its own adapter only.
//
//   mpirun -np 2 build/bin/bench_adapters [--layers 8] [--adapters 4] [--rank 16] [--weights int4] [--pairs
//   12]

#include "bench/filled_cache.h"
#include "bench/on_ranks.h"
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/adapters/adapter.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "tp/internal/require.h"

#include <memory>

namespace tp {
namespace {

struct Options : bench::FilledOptions {
  std::size_t layers = 8;
  std::size_t vocab = 128256;
  std::size_t adapters = 4;
  std::size_t rank = 16;
  std::string weights = "bf16";
  int threads = 1;
};

CheckpointConfig config_of(const Options& options) {
  CheckpointConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = 4096;
  config.intermediate_size = 14336;
  config.num_attention_heads = 32;
  config.num_key_value_heads = 8;
  config.head_dim = 128;
  config.num_hidden_layers = options.layers;
  config.vocab_size = options.vocab;
  config.max_position_embeddings = options.context + 1024;
  config.torch_dtype = DType::bf16;
  return config;
}

AdapterMatrix generated(const std::shared_ptr<const SyntheticWeights>& values, const std::string& name,
                        MatrixShape shape) {
  return {name, DType::bf16, shape, [values, name, shape](const TensorSlice& slice, TensorView<float> out) {
            values->read(name, shape, slice, out);
          }};
}

// Returns an adapter with factors for all projections.
Adapter generated_adapter(const ModelSpec& spec, const Options& options, std::size_t index) {
  const auto values = std::make_shared<const SyntheticWeights>(DType::bf16, 100 + index);
  const CheckpointConfig config = config_of(options);
  const std::size_t hidden = config.hidden_size;
  const std::size_t inner = config.intermediate_size;
  const std::size_t keys = config.num_key_value_heads * config.head_dim;
  Adapter adapter{.name = fmt::format("adapter {}", index), .place = "generated", .identity = {}};
  for (std::size_t layer = 0; layer < options.layers; ++layer) {
    const BlockNames names = spec.names.block(layer);
    const auto add = [&](const std::string& name, std::size_t out, std::size_t in) {
      adapter.layers[layer_key(name)] = {.a = generated(values, name + ".a", {options.rank, in}),
                                         .b = generated(values, name + ".b", {out, options.rank}),
                                         .scale = 0.1F};
    };
    add(names.q_proj, hidden, hidden);
    add(names.k_proj, keys, hidden);
    add(names.v_proj, keys, hidden);
    add(names.o_proj, hidden, hidden);
    add(names.gate_proj, inner, hidden);
    add(names.up_proj, inner, hidden);
    add(names.down_proj, hidden, inner);
  }
  return adapter;
}

double largest_difference(std::span<const float> one, std::span<const float> other) {
  double largest = 0.0;
  for (std::size_t i = 0; i < one.size(); ++i)
    largest = std::max(largest, static_cast<double>(std::abs(one[i] - other[i])));
  return largest;
}

// Products may round activations to 8 bits or more, depending on the number of rows, so the comparison has a
// tolerance.
void verify(bench::Decoder& decoder, const bench::FilledCache& cache, const Options& options,
            const std::vector<std::uint32_t>& mixed) {
  constexpr double kRounding = 0.2;  // the logits' standard deviation is about 1
  decoder.use_adapters(mixed);
  const std::vector<float> together = decoder.step(cache);
  const std::size_t columns = together.size() / options.sequences;
  for (std::uint32_t adapter = 0; adapter <= options.adapters; ++adapter) {
    decoder.use_adapters(std::vector<std::uint32_t>(options.sequences, adapter));
    const std::vector<float> alone = decoder.step(cache);
    for (std::size_t row = 0; row < options.sequences; ++row) {
      const double difference = largest_difference(std::span(together).subspan(row * columns, columns),
                                                   std::span(alone).subspan(row * columns, columns));
      require<CommError>(
          (difference < kRounding) == (mixed[row] == adapter),
          "sequence {} has adapter {}, and its logits differ by {} from those of adapter {}; fix "
          "this before measuring",
          row, mixed[row], difference, adapter);
    }
  }
}

void measure(Communicator& comm, const Options& options) {
  omp_set_num_threads(options.threads);
  const ModelSpec spec = make_spec(config_of(options));
  std::vector<Adapter> all;
  for (std::size_t index = 0; index < options.adapters; ++index)
    all.push_back(generated_adapter(spec, options, index));
  SyntheticWeights weights(DType::bf16, 3);
  weights.use_adapters(std::make_shared<const Adapters>(std::move(all)));
  bench::Decoder decoder(comm, spec, options, weights, *find_weight_type(options.weights));
  const bench::FilledCache cache(comm, spec, decoder.model(), options, true);
  std::vector<std::uint32_t> mixed(options.sequences);
  for (std::size_t row = 0; row < mixed.size(); ++row)
    mixed[row] = static_cast<std::uint32_t>(row % options.adapters + 1);
  verify(decoder, cache, options, mixed);
  const auto seconds_with = [&](const std::vector<std::uint32_t>& adapters) {
    decoder.use_adapters(adapters);
    return decoder.seconds(cache);
  };
  const Pairs pairs = measure_pairs(
      options.pairs, [&] { return seconds_with({}); }, [&] { return seconds_with(mixed); });
  if (!comm.is_root()) return;
  fmt::print("without {:.2f} ms, with {} adapters of rank {} {:.2f} ms, with/without {}\n",
             1e3 * pairs.one.median, options.adapters, options.rank, 1e3 * pairs.other.median,
             bench::with_bounds(pairs.ratio, 3));
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("Decoding with several adapters");
  tp::Options options;
  options.context = 512;
  options.sequences = 16;
  app.add_option("--layers", options.layers, "Layers of the model")->check(CLI::PositiveNumber);
  app.add_option("--vocab", options.vocab, "Tokens of the vocabulary, which adapters don't change")
      ->check(CLI::Range(1024, 1000000));
  app.add_option("--adapters", options.adapters, "Adapters that sequences use in turn")
      ->check(CLI::PositiveNumber);
  app.add_option("--rank", options.rank, "Rank of the factors")->check(CLI::PositiveNumber);
  tp::bench::add_weights(app, options.weights);
  tp::bench::add_threads(app, options.threads);
  tp::bench::add_options(app, options);
  return tp::bench::run_on_ranks("bench_adapters", app, argc, argv,
                                 [&](tp::Communicator& comm) { tp::measure(comm, options); });
}
