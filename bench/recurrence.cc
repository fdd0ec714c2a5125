// The recurrences of Qwen3-Next's gated delta net, Kimi-Linear's KDA and Granite 4 H Small's Mamba-2 mixers,
// in one layer: a prompt, and single tokens. Results are verified first. The bound of a prompt is its
// multiply-adds at this rank's peak in f32, which is measured before each kind.
//
//   bench_recurrence [--tokens 512] [--threads 1] [--tries 12]

#include "bench/harness.h"
#include "model/kernels/delta_rule.h"
#include "model/memory/buffer.h"
#include "model/rates/peak_rates.h"
#include "tests/reference/delta_rule.h"
#include "tests/reference/random.h"
#include "tp/error.h"
#include "tp/internal/require.h"

namespace tp {
namespace {

using kernels::DeltaShape;
using kernels::RecurrentRun;

struct Options {
  std::size_t tokens = 512;
  std::size_t tries = 12;
  int threads = 1;
};

struct Kind {
  const char* name;
  DeltaShape shape;
  bool corrects;
};

constexpr Kind kKinds[] = {
    {"gated delta net (Qwen3-Next)", {16, 32, 128, 128, false}, true},
    {"KDA (Kimi-Linear)", {32, 32, 128, 128, true}, true},
    {"Mamba-2 (Granite 4 H Small)", {1, 128, 128, 64, false}, false},
};

// Random numbers in a buffer with the page size of layers' inputs.
class Input {
 public:
  Input(reference::Random& random, std::size_t tokens, std::size_t columns)
      : numbers_(tokens * columns, "inputs"), tokens_(tokens), columns_(columns) {
    for (std::size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = random.number();
  }
  TensorView<float> view() const { return {numbers_.data(), tokens_, columns_}; }

 private:
  Buffer<float> numbers_;
  std::size_t tokens_;
  std::size_t columns_;
};

// A sequence of random tokens in one layer.
class Layer {
 public:
  Layer(const Kind& kind, std::size_t tokens)
      : kind_(kind),
        shape_(kind.shape),
        tokens_(tokens),
        random_(5),
        query_(random_, tokens, shape_.key_heads * shape_.key_dim),
        key_(random_, tokens, shape_.key_heads * shape_.key_dim),
        value_(random_, tokens, shape_.value_heads * shape_.value_dim),
        decay_(random_, tokens, shape_.value_heads * shape_.decays()),
        strength_(random_, tokens, shape_.value_heads),
        out_(tokens * shape_.value_heads * shape_.value_dim, "outputs"),
        state_(shape_.floats(), "a state"),
        scratch_(threads() * kernels::delta_scratch(shape_), "memory of threads"),
        dots_(tokens * kernels::delta_dots(shape_, kind.corrects) + 1, "products of keys") {
    for (std::size_t head = 0; head < shape_.value_heads; ++head)
      key_of_head_.push_back(head * shape_.key_heads / shape_.value_heads);
    for_all(decay_, [](float x) { return 0.98F + 0.02F * x * x; });
    for_all(strength_, [](float x) { return 0.5F + 0.25F * x; });
    // Scales keys to the length that they have in models.
    const float length = std::sqrt(static_cast<float>(shape_.key_dim));
    for_all(key_, [&](float x) { return x / length; });
  }

  // Computes `count` tokens from `position` on, with the first rows of the inputs.
  void run(std::size_t position, std::size_t count) {
    const std::vector<RecurrentRun> runs = {{.tokens = count, .position = position, .state = state_.data()}};
    kernels::delta_rule({.query = query_.view(),
                         .key = key_.view(),
                         .value = value_.view(),
                         .decay = decay_.view(),
                         .strength = strength_.view(),
                         .key_of_head = key_of_head_,
                         .shape = shape_,
                         .corrects = kind_.corrects,
                         .scratch = {scratch_.data(), threads(), kernels::delta_scratch(shape_)},
                         .dots = {dots_.data(), tokens_, kernels::delta_dots(shape_, kind_.corrects)},
                         .out = out()},
                        runs);
  }

  // After a prompt, compares the last head's outputs with the recurrence in double precision.
  void verify() const {
    constexpr double kTolerance = 1e-4;
    const std::size_t head = shape_.value_heads - 1;
    reference::DeltaHead state(shape_.key_dim, shape_.value_dim);
    for (std::size_t token = 0; token < tokens_; ++token) {
      const std::vector<double> expected = next(state, head, token);
      for (std::size_t i = 0; i < shape_.value_dim; ++i) {
        const double found = out()(token, head * shape_.value_dim + i);
        require<ConfigError>(std::abs(found - expected[i]) <= kTolerance,
                             "{}: token {}, element {}: found {}, expected {}", kind_.name, token, i, found,
                             expected[i]);
      }
    }
  }

  // Returns the multiply-adds per token: the matrix times a query (and a key), products of keys, weighted
  // additions, and a share of the next anchor.
  double operations() const {
    const double rows = kind_.corrects ? 2.0 : 1.0;
    const double since = (kernels::kAnchorTokens + 1) / 2.0;
    const auto heads = static_cast<double>(shape_.value_heads);
    const auto keys = static_cast<double>(shape_.decays_rows ? shape_.value_heads : shape_.key_heads);
    const auto key_dim = static_cast<double>(shape_.key_dim);
    const auto value_dim = static_cast<double>(shape_.value_dim);
    return heads * value_dim * ((rows + 1.0) * key_dim + rows * since) + keys * rows * since * key_dim;
  }

 private:
  static std::size_t threads() { return static_cast<std::size_t>(omp_get_max_threads()); }
  TensorView<float> out() const { return {out_.data(), tokens_, shape_.value_heads * shape_.value_dim}; }

  template <class Change>
  static void for_all(const Input& tensor, const Change& change) {
    const TensorView<float> view = tensor.view();
    for (std::size_t row = 0; row < view.rows(); ++row) {
      for (std::size_t i = 0; i < view.columns(); ++i) view(row, i) = change(view(row, i));
    }
  }

  std::vector<double> next(reference::DeltaHead& state, std::size_t head, std::size_t token) const {
    const std::size_t first = key_of_head_[head] * shape_.key_dim;
    const std::span query(query_.view().row(token) + first, shape_.key_dim);
    const std::span key(key_.view().row(token) + first, shape_.key_dim);
    const std::span value(value_.view().row(token) + head * shape_.value_dim, shape_.value_dim);
    const std::span decay(decay_.view().row(token) + head * shape_.decays(), shape_.decays());
    return state.next(query, key, value, decay, strength_.view()(token, head), kind_.corrects);
  }

  const Kind& kind_;
  DeltaShape shape_;
  std::size_t tokens_;
  reference::Random random_;
  Input query_;
  Input key_;
  Input value_;
  Input decay_;
  Input strength_;
  std::vector<std::size_t> key_of_head_;
  Buffer<float> out_;
  Buffer<float> state_;
  Buffer<float> scratch_;
  Buffer<float> dots_;
};

void report(const Options& options, const Kind& kind) {
  Layer layer(kind, options.tokens);
  layer.run(0, options.tokens);
  layer.verify();
  const PeakRates peaks = local_peak_rates();
  const auto tokens = static_cast<double>(options.tokens);
  const Interval prompt = bench::measure_times(options.tries, [&] { layer.run(0, options.tokens); });
  const double products = tokens * 2.0 * layer.operations() / peaks.f32_per_second;
  // The measurement covers all positions between two anchors, so it includes one share of an anchor per
  // token.
  const Interval decoding = bench::measure_times(options.tries, [&] {
    for (std::size_t i = 0; i < kernels::kAnchorTokens; ++i) layer.run(kernels::kAnchorTokens + i, 1);
  });
  const double per_token = 1e6 / static_cast<double>(kernels::kAnchorTokens);
  fmt::print("{:<30} {:>24} {:>9.1f} {:>9.2f} {:>26}\n", kind.name,
             bench::with_bounds(prompt, 1, 1e6 / tokens), products * 1e6 / tokens, products / prompt.median,
             bench::with_bounds(decoding, 1, per_token));
}

}  // namespace
}  // namespace tp

int main(int argc, char** argv) {
  CLI::App app("Recurrent layers: a prompt and single tokens");
  tp::Options options;
  app.add_option("--tokens", options.tokens, "Tokens of the prompt")->check(CLI::Range(1, 100000));
  tp::bench::add_threads(app, options.threads, "Threads");
  tp::bench::add_pairs(app, options.tries, "Measurements of each", "--tries");
  return tp::bench::run_program("bench_recurrence", app, argc, argv, [&] {
    omp_set_num_threads(options.threads);
    fmt::print("{:<30} {:>24} {:>9} {:>9} {:>26}\n", "one layer, us per token", "prompt", "bound", "of bound",
               "single tokens");
    for (const tp::Kind& kind : tp::kKinds) tp::report(options, kind);
  });
}
