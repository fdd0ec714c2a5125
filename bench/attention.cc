// Tiled attention against naive attention, which stores the score matrix: time and memory by prompt length,
// sliding windows, and the bandwidth at which decoding reads the cache. Results are verified first.
//
//   bench_attention [--max-tokens N] [--threads N] [--json] [--only dense|decode|sparse|latent]
//
// Naive attention is two matmuls of OpenBLAS with a softmax in between, one head at a time. As it multiplies
// whole matrices, it also computes the scores above the diagonal.

#include "bench/attention_problem.h"

namespace tp::bench {
namespace {

// Returns the tolerance for a mean of values in [-1, 1). Rounded queries and keys change a score by at most
// scale * 64 * 2^-9. The elements' errors are independent, so three standard deviations are 3 * sqrt(64)
// units. Values and weights add one unit each.
double tolerance(KvType type) {
  const double unit = type == KvType::f32 ? 0.0 : type == KvType::bf16 ? 0x1p-9 : 0.5 / 127;
  return 1e-4 + 2 * 3 * std::sqrt(static_cast<double>(kHeadDim)) * kScale * unit + 2 * unit;
}

void verify(const Problem& problem, std::size_t head, TensorView<const float> expected, KvType type) {
  for (std::size_t t = 0; t < problem.tokens(); ++t) {
    require_close(difference(problem.out().row(t) + head * kHeadDim, expected.row(t), kHeadDim),
                  tolerance(type), fmt::format("attention with a {} cache, token {}", name_of(type), t));
  }
}

void report_prompt(const Options& options, std::size_t tokens) {
  double textbook = 0.0;
  const Buffer<float> scores(tokens * tokens, "naive scores");
  const Buffer<float> expected(tokens * kHeadDim, "naive output");
  const TensorView<float> score_view(scores.data(), tokens, tokens);
  const TensorView<float> expected_view(expected.data(), tokens, kHeadDim);
  for (const KvType type : {KvType::f32, KvType::bf16, KvType::int8}) {
    const Problem problem(tokens, type);
    if (textbook == 0.0) {
      // All heads take equally long, so the benchmark measures one.
      textbook = kHeads * best_seconds([&] { problem.textbook(1, score_view, expected_view); });
    }
    problem.prefill();
    verify(problem, 1, expected_view, type);
    const double tiled = best_seconds([&] { problem.prefill(); });
    const double windowed = best_seconds([&] { problem.prefill(kWindow); });
    const std::size_t textbook_bytes = scores.size() * sizeof(float);
    print_line(
        options.json,
        fmt::format(
            "{{\"phase\":\"prefill\",\"tokens\":{},\"kv_type\":\"{}\",\"threads\":{},\"naive_s\":{:.6f},"
            "\"tiled_s\":{:.6f},\"speedup\":{:.3f},\"naive_bytes\":{},\"tiled_bytes\":{},\"window\":{},"
            "\"window_s\":{:.6f}}}",
            tokens, name_of(type), options.threads, textbook, tiled, textbook / tiled, textbook_bytes,
            problem.tiled_bytes(), kWindow, windowed),
        fmt::format("{:>7} {:>6} {:>12.2f} {:>10.2f} {:>8.2f} {:>13.1f} {:>10.2f} {:>12.2f} {:>10.3f}",
                    tokens, name_of(type), textbook * 1e3, tiled * 1e3, textbook / tiled,
                    static_cast<double>(textbook_bytes) / 0x1p20,
                    static_cast<double>(problem.tiled_bytes()) / 0x1p20, windowed * 1e3,
                    windowed * 1e6 / static_cast<double>(tokens)));
  }
}

void run_dense(const Options& options) {
  if (!options.json) {
    fmt::print(
        "Causal prefill; {} query heads of {} on one KV head, {}. Memory besides "
        "queries and outputs;\n"
        "the last two columns are for a sliding window of {} tokens.\n",
        kHeads, kHeadDim, setting(options), kWindow);
    fmt::print("{:>7} {:>6} {:>12} {:>10} {:>8} {:>13} {:>10} {:>12} {:>10}\n", "tokens", "cache", "naive ms",
               "tiled ms", "speedup", "naive MiB", "tiled MiB", "windowed ms", "us/token");
  }
  for (std::size_t tokens = 1024; tokens <= options.max_tokens; tokens *= 2) report_prompt(options, tokens);
}

}  // namespace

static void run(const Options& options) {
  omp_set_num_threads(static_cast<int>(options.threads));
  const auto wants = [&](const char* part) { return options.only.empty() || options.only == part; };
  if (wants("dense")) run_dense(options);
  if (wants("decode")) run_decode(options);
  if (wants("sparse")) run_sparse(options);
  if (wants("latent")) run_latent(options);
}

}  // namespace tp::bench

int main(int argc, char** argv) {
  CLI::App app("Tiled attention against naive attention, which stores the score matrix");
  tp::bench::Options options;
  app.add_option("--max-tokens", options.max_tokens,
                 "Longest prompt; naive attention takes 4 bytes times its square")
      ->check(CLI::Range(1024, 131072))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads")->check(CLI::Range(1, 1024))->capture_default_str();
  tp::bench::add_json(app, options.json);
  app.add_option("--only", options.only,
                 "dense: against naive attention; decode: long contexts; sparse: patterns that cost less; "
                 "latent: latents of many heads")
      ->check(CLI::IsMember({"dense", "decode", "sparse", "latent"}));
  return tp::bench::run_program("bench_attention", app, argc, argv, [&] { tp::bench::run(options); });
}
