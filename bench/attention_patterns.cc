#include "bench/attention_problem.h"
#include "model/kernels/favor.h"

namespace tp::bench {
namespace {

using kernels::AttentionPattern;

constexpr std::size_t kSamples = 24;  // number of verified tokens
constexpr double kTolerance = 1e-4;
constexpr std::size_t kFeatures = 256;

// A pattern, and biases of keys outside of it that all tokens attend to.
struct Kind {
  std::string name;
  AttentionPattern pattern{.causal = false};
  std::vector<float> key_bias{};  // [tokens], or empty
};

// Returns Longformer-base's pattern: 256 tokens on either side, and the first token, to which all tokens
// attend.
Kind longformer(std::size_t tokens) {
  Kind kind{.name = "Longformer", .key_bias = std::vector<float>(tokens, -INFINITY)};
  kind.pattern.window = 257;
  kind.key_bias[0] = 0.0F;
  return kind;
}

// Returns longformer's pattern with a dilation: a window is twice as wide and skips every second token.
Kind dilated(std::size_t tokens) {
  Kind kind = longformer(tokens);
  kind.name = "dilated";
  kind.pattern.dilation = 2;
  return kind;
}

// Returns BigBird-base's pattern: blocks of 64 tokens. Three of a token's blocks repeat the first block.
Kind big_bird(std::size_t tokens) {
  Kind kind{.name = "BigBird", .key_bias = std::vector<float>(tokens, -INFINITY)};
  kind.pattern.block_size = 64;
  kind.pattern.block_repeats = 3;
  std::fill_n(kind.key_bias.begin(), 64, std::log1p(3.0F));
  std::fill(kind.key_bias.end() - 64, kind.key_bias.end(), 0.0F);
  return kind;
}

// Returns the position of the token that is stored at a place of the sequence.
std::size_t position_at(const Kind& kind, std::size_t tokens, std::size_t place) {
  return kernels::Residues{tokens, kind.pattern.dilation}.position_at(place);
}

// Returns the term that a pattern adds to a score, or -infinity. Follows the papers, token by token.
double gain(const Kind& kind, std::size_t tokens, std::size_t own, std::size_t key) {
  const AttentionPattern& pattern = kind.pattern;
  if (pattern.block_size != 0) {
    const std::size_t last = (tokens - 1) / pattern.block_size;
    const std::size_t block = own / pattern.block_size;
    const std::size_t other = key / pattern.block_size;
    if (block == 0 || block == last) return 0.0;
    if (other == 0 || other == last) return kind.key_bias[key];
    return other + 1 >= block && other <= block + 1 ? 0.0 : -INFINITY;
  }
  if (!kind.key_bias.empty() && kind.key_bias[key] == 0.0F) return 0.0;
  const std::size_t a = position_at(kind, tokens, own);
  const std::size_t b = position_at(kind, tokens, key);
  const std::size_t apart = a > b ? a - b : b - a;
  const bool seen =
      apart % pattern.dilation == 0 && (!pattern.window || apart / pattern.dilation < *pattern.window);
  return seen ? 0.0 : -INFINITY;
}

// Returns the scaled product of a query and a key.
double score(const Problem& problem, std::size_t own, std::size_t head, std::size_t key) {
  double sum = 0.0;
  for (std::size_t d = 0; d < kHeadDim; ++d)
    sum += static_cast<double>(problem.query()(own, head * kHeadDim + d)) * problem.key()(key, d);
  return sum * kScale;
}

// Returns the mean of the values of keys [0, count), weighted by `weight(key)`.
template <class Weight>
std::vector<double> mean_of_values(const Problem& problem, std::size_t count, const Weight& weight) {
  return weighted_mean(count, kHeadDim, weight, [&](std::size_t key) { return problem.value().row(key); });
}

// Compares the output of head 1.
void verify_output(const Problem& problem, const std::string& name, std::size_t token,
                   const std::vector<double>& expected) {
  require_close(difference(problem.out().row(token) + kHeadDim, expected, kHeadDim), kTolerance,
                fmt::format("{} attention, token {}", name, token));
}

// Returns one of the verified tokens: the first, the last, and evenly spaced ones between.
std::size_t sample(std::size_t index, std::size_t tokens) { return index * (tokens - 1) / (kSamples - 1); }

void verify(const Problem& problem, const Kind& kind) {
  const std::size_t tokens = problem.tokens();
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::size_t own = sample(i, tokens);
    const auto weight = [&](std::size_t key) {
      const double more = gain(kind, tokens, own, key);
      return more == -INFINITY ? 0.0 : std::exp(score(problem, own, 1, key) + more);
    };
    verify_output(problem, kind.name, own, mean_of_values(problem, tokens, weight));
  }
}

void print_row(const Options& options, const std::string& name, std::size_t tokens, double seconds,
               std::size_t bytes, const std::string& more = "") {
  const double each = seconds * 1e6 / static_cast<double>(tokens);
  print_line(
      options.json,
      fmt::format("{{\"phase\":\"sparse\",\"kind\":\"{}\",\"tokens\":{},\"threads\":{},\"seconds\":{:.6f},"
                  "\"us_per_token\":{:.3f},\"bytes\":{}}}",
                  name, tokens, options.threads, seconds, each, bytes),
      fmt::format("{:>7} {:>12} {:>12.2f} {:>10.2f} {:>10.2f}{}", tokens, name, seconds * 1e3, each,
                  static_cast<double>(bytes) / 0x1p20, more));
}

void report_pattern(const Options& options, const Problem& problem, const Kind& kind) {
  const float* const key_bias = kind.key_bias.empty() ? nullptr : kind.key_bias.data();
  const auto run = [&] { problem.tiled(0, problem.tokens(), kind.pattern, key_bias); };
  run();
  verify(problem, kind);
  const double seconds = best_seconds(run);
  print_row(options, kind.name, problem.tokens(), seconds, problem.tiled_bytes());
}

// Causal attention as Performer estimates it.
class RandomFeatures {
 public:
  explicit RandomFeatures(const Problem& problem)
      : problem_(problem),
        features_(kernels::orthogonal_features(1, kFeatures, kHeadDim)),
        state_(kernels::favor_state_floats(1, kFeatures, kHeadDim)),
        scratch_columns_(kernels::favor_scratch(kHeads, kFeatures, kHeadDim)),
        scratch_(static_cast<std::size_t>(omp_get_max_threads()) * scratch_columns_) {}

  void run() {
    const std::vector<kernels::RecurrentRun> runs = {
        {.first_token = 0, .tokens = problem_.tokens(), .state = state_.data()}};
    const std::vector<std::size_t> kv_of_head(kHeads, 0);
    kernels::favor_attention(
        {.query = problem_.query(),
         .key = problem_.key(),
         .value = problem_.value(),
         .kv_of_head = kv_of_head,
         .features = features_,
         .num_features = kFeatures,
         .head_dim = kHeadDim,
         .scale = kScale,
         .scratch = {scratch_.data(), scratch_.size() / scratch_columns_, scratch_columns_},
         .out = problem_.out()},
        runs);
  }

  // Returns exp(w . x - |x|^2 / 2) for every random vector w.
  std::vector<double> features_of(const float* vector) const {
    std::vector<double> features(kFeatures);
    double squares = 0.0;
    for (std::size_t d = 0; d < kHeadDim; ++d) squares += kScale * static_cast<double>(vector[d]) * vector[d];
    for (std::size_t i = 0; i < kFeatures; ++i) {
      double along = 0.0;
      for (std::size_t d = 0; d < kHeadDim; ++d)
        along += static_cast<double>(features_[i * kHeadDim + d]) * vector[d];
      features[i] = std::exp(along * std::sqrt(static_cast<double>(kScale)) - squares / 2);
    }
    return features;
  }

  // Compares the outputs with sums of products of features. Returns the root mean square of their difference
  // from exact attention, relative to exact attention.
  double verify() const {
    const std::vector<std::vector<double>> estimates = estimated_weights();
    double squares = 0.0;
    double errors = 0.0;
    for (std::size_t i = 0; i < kSamples; ++i) {
      const std::size_t own = sample(i, problem_.tokens());
      const std::vector<double> expected =
          mean_of_values(problem_, own + 1, [&](std::size_t key) { return estimates[i][key]; });
      verify_output(problem_, "FAVOR+", own, expected);
      const std::vector<double> exact = mean_of_values(
          problem_, own + 1, [&](std::size_t key) { return std::exp(score(problem_, own, 1, key)); });
      for (std::size_t d = 0; d < kHeadDim; ++d) {
        const double apart = problem_.out()(own, kHeadDim + d) - exact[d];
        errors += apart * apart;
        squares += exact[d] * exact[d];
      }
    }
    return std::sqrt(errors / squares);
  }

  std::size_t bytes() const { return (state_.size() + features_.size() + scratch_.size()) * sizeof(float); }

 private:
  // Returns the weights of all keys for the verified tokens: [kSamples, tokens].
  std::vector<std::vector<double>> estimated_weights() const {
    std::vector<std::vector<double>> queries;
    for (std::size_t i = 0; i < kSamples; ++i)
      queries.push_back(features_of(problem_.query().row(sample(i, problem_.tokens())) + kHeadDim));
    std::vector<std::vector<double>> weights(kSamples, std::vector<double>(problem_.tokens()));
    for (std::size_t key = 0; key < problem_.tokens(); ++key) {
      const std::vector<double> features = features_of(problem_.key().row(key));
      for (std::size_t i = 0; i < kSamples; ++i)
        weights[i][key] = std::inner_product(features.begin(), features.end(), queries[i].begin(), 0.0);
    }
    return weights;
  }

  const Problem& problem_;
  std::vector<float> features_;
  std::vector<float> state_;
  std::size_t scratch_columns_;
  std::vector<float> scratch_;
};

void report_features(const Options& options, const Problem& problem) {
  RandomFeatures features(problem);
  features.run();
  const double error = features.verify();
  const double seconds = best_seconds([&] { features.run(); });
  print_row(options, "FAVOR+", problem.tokens(), seconds, features.bytes(),
            fmt::format("  relative error {:.3f}", error));
}

}  // namespace

void run_sparse(const Options& options) {
  if (!options.json) {
    fmt::print(
        "\nWhole sequences; {} query heads of {} on one KV head, {}, an f32 cache. "
        "Exact "
        "attention, Longformer\n(windows of 512 and a global token; dilated: of every second one) and "
        "BigBird "
        "(blocks of 64) see in both directions;\nFAVOR+ has {} random features and is causal.\n",
        kHeads, kHeadDim, setting(options), kFeatures);
    fmt::print("{:>7} {:>12} {:>12} {:>10} {:>10}\n", "tokens", "attention", "ms", "us/token", "MiB");
  }
  for (std::size_t tokens = 1024; tokens <= options.max_tokens; tokens *= 2) {
    const Problem problem(tokens, KvType::f32);
    report_pattern(options, problem, {.name = "exact"});
    for (const Kind& kind : {longformer(tokens), dilated(tokens), big_bird(tokens)})
      report_pattern(options, problem, kind);
    report_features(options, problem);
  }
}

}  // namespace tp::bench
