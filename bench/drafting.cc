// The cost of drafting at real shapes: steps of 1 to 1 + drafts rows of a target that is cut to a few layers,
// and passes of its EAGLE-3 drafter. Random weights guess nothing right, so the gain is a projection: these
// costs with the shares of accepted draft tokens that were measured elsewhere (--accepted).
//
//   mpirun -np 2 build/bin/bench_drafting --target bench/shapes/llama-8b-cut.json --layers 32
//     --drafter bench/shapes/llama-8b-eagle3.json --accepted 0.8,0.6,0.4,0.3,0.2

#include "bench/filled_cache.h"
#include "bench/on_ranks.h"
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "parallel/exchange/collectives.h"
#include "tests/reference/random.h"
#include "tp/internal/require.h"

namespace tp {
namespace {

struct Options : bench::FilledOptions {
  std::string target;
  std::string drafter;
  std::size_t layers = 0;  // the whole target's
  std::string weights = "int4";
  std::vector<double> accepted;  // shares of steps that accept their first, second, ... draft token
  int threads = 1;
};

// States that the rows of a step read besides tokens.
struct RowStates {
  const float* streams = nullptr;  // the target's; null: the drafter's own states, or none
  const float* own = nullptr;      // null: not a drafter
};

// A model with the cache of one sequence, and steps at the end of its context.
class Sequence {
 public:
  Sequence(Communicator& comm, const ModelSpec& spec, const WeightSource& weights, const Options& options)
      : comm_(comm),
        options_(options),
        rows_(options.accepted.size() + 1),
        model_(spec, weights, {comm.rank(), comm.size()}, *find_weight_type(options.weights)),
        cache_(comm, spec, model_, longer(options), true),
        workspace_(model_.workspace_floats({.tokens = rows_,
                                            .outputs = rows_,
                                            .kv_type = KvType::bf16,
                                            .block_size = bench::FilledCache::kBlockSize,
                                            .max_blocks = cache_.tables().front().size()})) {}

  // Computes rows from `first` after the context, with or without logits. Returns the rank's logits.
  // Collective.
  std::vector<float> step(std::size_t rows, bool has_logits, const RowStates& states = {},
                          std::size_t first = 0) {
    Batch batch;
    const std::size_t position = options_.context + first;
    batch.spans[0].push_back({0, rows, position, cache_.tables().front()});
    for (std::size_t row = 0; row < rows; ++row) {
      batch.tokens.push_back(static_cast<TokenId>(100 + (first + row) * 37));
      batch.positions.push_back(position + row);
      if (has_logits) batch.output_rows.push_back(row);
      if (states.own != nullptr)
        batch.states_before.push_back(states.streams != nullptr ? states.streams : states.own);
    }
    batch.own_states = states.own != nullptr && states.streams == nullptr;
    batch.states.resize(1);
    return bench::logits_of(model_, comm_, batch, cache_, workspace_);
  }

  // The median of the seconds that steps take on the slowest rank. Collective.
  double seconds(std::size_t rows, bool has_logits, const RowStates& states = {}) {
    std::vector<double> all;
    for (std::size_t pair = 0; pair < options_.pairs; ++pair) {
      barrier(comm_);
      const Stopwatch watch;
      for (std::size_t i = 0; i < options_.steps; ++i) step(rows, has_logits, states);
      constexpr double kNano = 1e9;
      const auto own = static_cast<std::int64_t>(watch.seconds() * kNano);
      all.push_back(static_cast<double>(max_over_ranks(comm_, own)) / kNano /
                    static_cast<double>(options_.steps));
    }
    return interval_of(all).median;
  }

 private:
  static bench::FilledOptions longer(const Options& options) {
    bench::FilledOptions all = options;
    all.context += options.accepted.size() + 1;
    all.sequences = 1;
    return all;
  }

  Communicator& comm_;
  Options options_;
  std::size_t rows_;  // most rows of a step
  Model model_;
  bench::FilledCache cache_;
  Workspace workspace_;
};

// Rows of one step must get the logits that they get one after another. Products round activations to at
// least 8 bits, and a few rows of experts may choose other experts than alone.
void verify(Sequence& target, std::size_t rows) {
  const std::vector<float> together = target.step(rows, true);
  std::vector<float> apart;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::vector<float> own = target.step(1, true, {}, row);
    apart.insert(apart.end(), own.begin(), own.end());
  }
  double difference = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < together.size(); ++i) {
    difference += std::abs(static_cast<double>(together[i]) - static_cast<double>(apart[i]));
    size += std::abs(static_cast<double>(apart[i]));
  }
  constexpr double kRounding = 0.2;
  require<CommError>(together.size() == apart.size() && difference <= kRounding * size,
                     "the logits of {} rows differ from those of single rows by {} of their mean size; fix "
                     "this before measuring",
                     rows, difference / size);
}

ModelSpec spec_of(const std::string& file) { return make_spec(load_config(file)); }

void measure(Communicator& comm, const Options& options) {
  omp_set_num_threads(options.threads);
  require<ConfigError>(options.sequences == 1, "expected --sequences 1, found {}", options.sequences);
  const ModelSpec spec = spec_of(options.target);
  const ModelSpec draft_spec = spec_of(options.drafter);
  require<ConfigError>(
      draft_spec.drafter && !draft_spec.drafter->block && draft_spec.drafter->stream_size == spec.hidden_size,
      "{}: expected an EAGLE-3 drafter of {}", options.drafter, options.target);
  const std::size_t drafts = options.accepted.size();
  std::vector<double> verified(drafts + 2, 0.0);  // seconds of steps of the whole target, by rows
  {
    Sequence target(comm, spec, SyntheticWeights(DType::bf16, 3), options);
    verify(target, drafts + 1);
    const double cut = static_cast<double>(options.layers) / static_cast<double>(spec.blocks.size());
    for (std::size_t rows = 1; rows <= drafts + 1; ++rows) {
      const double blocks = target.seconds(rows, false);
      const double all = target.seconds(rows, true);
      verified[rows] = cut * blocks + std::max(0.0, all - blocks);
      if (comm.is_root())
        fmt::print("target, {} rows: {:.3f} ms with {} layers, {:.2f} ms with {}\n", rows, 1e3 * all,
                   spec.blocks.size(), 1e3 * verified[rows], options.layers);
    }
  }
  Sequence drafter(comm, draft_spec, SyntheticWeights(DType::bf16, 5), options);
  const std::vector<float> states =
      reference::Random(7).numbers(draft_spec.drafter->streams * spec.hidden_size);
  const double chained = drafter.seconds(1, true, {.own = states.data()});
  if (comm.is_root()) fmt::print("drafter, 1 row after its own state: {:.3f} ms\n", 1e3 * chained);
  double tokens = 1.0;
  for (std::size_t count = 1; count <= drafts; ++count) {
    tokens += options.accepted[count - 1];
    // The first pass also reads the streams of the tokens that the step before has added.
    const auto added = static_cast<std::size_t>(std::ceil(tokens));
    const double first =
        drafter.seconds(std::min(added, drafts + 1), true, {.streams = states.data(), .own = states.data()});
    const double step = verified[count + 1] + first + static_cast<double>(count - 1) * chained;
    if (!comm.is_root()) continue;
    fmt::print(
        "{} draft tokens: first pass {:.3f} ms, step {:.2f} ms; projection: {:.2f} tokens per step, "
        "{:.2f} times the speed without drafts\n",
        count, 1e3 * first, 1e3 * step, tokens, tokens * verified[1] / step);
  }
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("The costs of drafting and of verifying draft tokens");
  tp::Options options;
  options.context = 1024;
  options.accepted = {0.8, 0.6, 0.45, 0.35, 0.25};
  app.add_option("--target", options.target, "config.json of the target, cut to a few layers")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--layers", options.layers, "Layers of the whole target")
      ->required()
      ->check(CLI::PositiveNumber);
  app.add_option("--drafter", options.drafter, "config.json of an EAGLE-3 drafter")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--accepted", options.accepted,
                 "Shares of steps that accept their first, second, ... draft token")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0));
  tp::bench::add_weights(app, options.weights);
  tp::bench::add_threads(app, options.threads);
  tp::bench::add_options(app, options);
  return tp::bench::run_on_ranks("bench_drafting", app, argc, argv,
                                 [&](tp::Communicator& comm) { tp::measure(comm, options); });
}
