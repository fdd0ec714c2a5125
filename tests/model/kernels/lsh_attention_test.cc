// Attention by hashes against a transcription of its definition, with explicit sorted copies of everything.
#include "model/kernels/lsh_attention.h"

#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>
#include <omp.h>

namespace tp {
namespace {

struct LshProblem {
  std::size_t tokens;
  std::size_t heads;
  std::size_t head_dim;
  std::size_t chunk;
  std::size_t before;
  std::size_t after;
  std::size_t hashes;
  std::vector<std::size_t> factors;

  std::size_t padded() const { return (tokens + chunk - 1) / chunk * chunk; }
  bool is_hashed() const { return padded() > chunk; }
  std::size_t rotated() const { return std::accumulate(factors.begin(), factors.end(), std::size_t{0}) / 2; }
};

std::vector<float> lsh_numbers(reference::Random& random, std::size_t count) {
  std::vector<float> all(count);
  for (float& number : all) number = static_cast<float>(random.integer(0, 2000)) / 1000.0F - 1.0F;
  return all;
}

// A sorted slot: its token, and whether the token exists.
struct Slot {
  std::size_t token = 0;
  bool is_padding = false;
};

// One head of one sequence. query, value: [tokens][head_dim]; rotations: [hashes][rotated][head_dim].
class NaiveHead {
 public:
  NaiveHead(const LshProblem& problem, std::vector<std::vector<double>> query,
            std::vector<std::vector<double>> value, std::vector<std::vector<std::vector<double>>> rotations)
      : problem_(problem),
        query_(std::move(query)),
        value_(std::move(value)),
        rotations_(std::move(rotations)) {}

  std::vector<std::vector<double>> run() const {
    std::vector<Slot> slots;
    const std::size_t hashes = problem_.is_hashed() ? problem_.hashes : 1;
    for (std::size_t hash = 0; hash < hashes; ++hash) append_sorted(hash, slots);
    std::vector<std::vector<double>> sums(problem_.tokens, std::vector<double>(problem_.head_dim));
    std::vector<double> totals(problem_.tokens);
    const std::size_t length = problem_.is_hashed() ? problem_.chunk : slots.size();
    const std::size_t chunks = slots.size() / length;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].is_padding) continue;
      const std::size_t own = slots[i].token;
      const auto chunk = static_cast<std::ptrdiff_t>(i / length);
      const auto before = static_cast<std::ptrdiff_t>(problem_.is_hashed() ? problem_.before : 0);
      const auto after = static_cast<std::ptrdiff_t>(problem_.is_hashed() ? problem_.after : 0);
      for (std::ptrdiff_t next = chunk - before; next <= chunk + after; ++next) {
        const auto count = static_cast<std::ptrdiff_t>(chunks);
        const auto from = static_cast<std::size_t>(((next % count) + count) % count);
        for (std::size_t j = from * length; j < (from + 1) * length; ++j) {
          if (slots[j].is_padding || slots[j].token > own) continue;
          // Weights are relative to each other, so a score of -1e5 has no weight next to other scores, but
          // all the weight by itself.
          const bool is_own = slots[j].token == own;
          const double weight = is_own ? 1e-200 : std::exp(score(own, slots[j].token));
          totals[own] += weight;
          for (std::size_t d = 0; d < problem_.head_dim; ++d)
            sums[own][d] += weight * value_[slots[j].token][d];
        }
      }
    }
    for (std::size_t token = 0; token < problem_.tokens; ++token) {
      for (double& sum : sums[token]) sum /= totals[token];
    }
    return sums;
  }

 private:
  double score(std::size_t own, std::size_t other) const {
    double product = 0.0;
    double squares = 0.0;
    for (std::size_t d = 0; d < problem_.head_dim; ++d) {
      product += query_[own][d] * query_[other][d];
      squares += query_[other][d] * query_[other][d];
    }
    const auto size = static_cast<double>(problem_.head_dim);
    return product / std::sqrt(squares / size + 1e-6) / std::sqrt(size);
  }

  std::size_t bucket(std::size_t token, std::size_t hash) const {
    std::size_t bucket = 0;
    std::size_t digit = 1;
    std::size_t row = 0;
    for (const std::size_t factor : problem_.factors) {
      std::vector<double> rotated(factor);
      for (std::size_t i = 0; i < factor / 2; ++i, ++row) {
        for (std::size_t d = 0; d < problem_.head_dim; ++d)
          rotated[i] += query_[token][d] * rotations_[hash][row][d];
        rotated[factor / 2 + i] = -rotated[i];
      }
      bucket += digit * static_cast<std::size_t>(std::ranges::max_element(rotated) - rotated.begin());
      digit *= factor;
    }
    return bucket;
  }

  void append_sorted(std::size_t hash, std::vector<Slot>& slots) const {
    std::vector<std::pair<std::size_t, std::size_t>> order;
    for (std::size_t token = 0; token < problem_.tokens; ++token)
      order.emplace_back(problem_.is_hashed() ? bucket(token, hash) : 0, token);
    std::ranges::sort(order);
    for (const auto& [bucket, token] : order) slots.push_back({token, false});
    if (!problem_.is_hashed()) return;
    for (std::size_t i = problem_.tokens; i < problem_.padded(); ++i) slots.push_back({0, true});
  }

  const LshProblem& problem_;
  std::vector<std::vector<double>> query_;
  std::vector<std::vector<double>> value_;
  std::vector<std::vector<std::vector<double>>> rotations_;
};

std::vector<std::vector<double>> rows_of(const std::vector<float>& numbers, std::size_t first,
                                         std::size_t rows, std::size_t columns, std::size_t stride) {
  std::vector<std::vector<double>> out;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(first + row * stride);
    out.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(columns));
  }
  return out;
}

void expect_attention(std::uint64_t seed, const LshProblem& problem) {
  reference::Random random(seed);
  const std::size_t width = problem.heads * problem.head_dim;
  const std::size_t size = problem.rotated();
  const std::vector<float> query = lsh_numbers(random, problem.tokens * width);
  const std::vector<float> value = lsh_numbers(random, problem.tokens * width);
  const std::vector<float> rotations =
      lsh_numbers(random, problem.heads * problem.hashes * size * problem.head_dim);
  std::vector<float> out(query.size(), 99.0F);
  const std::vector<kernels::LshSequence> sequences = {
      {.first_token = 0,
       .tokens = problem.tokens,
       .padded = problem.padded(),
       .buckets = {.factors = problem.factors, .rotations = rotations}}};
  kernels::LshAttention args{
      .query_key = TensorView<const float>(query.data(), problem.tokens, width),
      .value = TensorView<const float>(value.data(), problem.tokens, width),
      .sequences = sequences,
      .head_dim = problem.head_dim,
      .chunk_length = problem.chunk,
      .chunks_before = problem.before,
      .chunks_after = problem.after,
      .num_hashes = problem.hashes,
      .limits = {.tokens = problem.tokens,
                 .padded = problem.padded(),
                 .rotated = size,
                 .buckets = std::accumulate(problem.factors.begin(), problem.factors.end(), std::size_t{1},
                                            std::multiplies<>())},
      .out = TensorView<float>(out.data(), problem.tokens, width)};
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  const std::size_t columns = kernels::lsh_scratch(args);
  std::vector<float> scratch(threads * columns);
  args.scratch = TensorView<float>(scratch.data(), threads, columns);
  kernels::lsh_attention(args);
  for (std::size_t head = 0; head < problem.heads; ++head) {
    std::vector<std::vector<std::vector<double>>> of_head;
    for (std::size_t hash = 0; hash < problem.hashes; ++hash)
      of_head.push_back(rows_of(rotations, (head * problem.hashes + hash) * size * problem.head_dim, size,
                                problem.head_dim, problem.head_dim));
    const auto own = [&](const std::vector<float>& numbers) {
      return rows_of(numbers, head * problem.head_dim, problem.tokens, problem.head_dim, width);
    };
    const auto expected = NaiveHead(problem, own(query), own(value), of_head).run();
    for (std::size_t token = 0; token < problem.tokens; ++token) {
      for (std::size_t d = 0; d < problem.head_dim; ++d)
        ASSERT_NEAR(out[token * width + head * problem.head_dim + d], expected[token][d], 1e-5)
            << "token " << token << " of " << problem.tokens << ", head " << head;
    }
  }
}

TEST(LshAttention, SeesTheChunkBefore) {
  for (const std::size_t tokens : {1U, 2U, 7U, 8U, 9U, 16U, 17U, 40U, 95U})
    expect_attention(tokens, {tokens, 3, 6, 8, 1, 0, 1, {4}});
}

TEST(LshAttention, WeighsSeveralHashesByTheirSums) {
  for (const std::size_t hashes : {2U, 3U, 4U}) {
    for (const std::size_t tokens : {5U, 24U, 61U})
      expect_attention(hashes, {tokens, 2, 8, 8, 1, 0, hashes, {6}});
  }
}

TEST(LshAttention, ComposesBucketsOfFactors) {
  for (const std::size_t tokens : {17U, 100U}) expect_attention(1, {tokens, 2, 10, 8, 1, 0, 1, {4, 6}});
}

// Also tests more neighbours than chunks. Some chunks then count twice.
TEST(LshAttention, SeesTheRequestedNumberOfNeighbours) {
  for (const std::size_t before : {0U, 2U, 5U}) {
    for (const std::size_t after : {0U, 1U, 3U})
      expect_attention(before * 10 + after, {50, 2, 6, 16, before, after, 2, {4}});
  }
}

}  // namespace
}  // namespace tp
