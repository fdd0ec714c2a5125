#include "model/layers/blocks/hash_table.h"

#include "parallel/exchange/collectives.h"
#include "tests/model/weights/memory_weights.h"
#include "tests/mpi_test.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

constexpr std::size_t kStreams = 2;
constexpr std::size_t kSize = 6;
constexpr std::size_t kChannels = kStreams * kSize;
constexpr std::size_t kRowSize = 3;
constexpr std::size_t kRowsOfShard = 31;
constexpr std::size_t kTaps = 3;
constexpr std::size_t kTokens = 24;
constexpr double kTolerance = 1e-5;

HashTableSpec spec() {
  HashTableSpec spec{.hash = {.multipliers = {101, 77, 345},
                              .heads_per_ngram = 2,
                              .sizes = primes_from(11, 0, 4),  // 11, 13, 17 and 19: 60 rows
                              .boundary = 4},
                     .row_size = kRowSize,
                     .rows = 2 * kRowsOfShard,
                     .shards = 2,
                     .streams = kStreams,
                     .conv_kernel = kTaps,
                     .conv_dilation = 3,
                     .norm = {.eps = 1e-3F, .gain_offset = 1.0F}};
  spec.hash.offsets = offsets_of(spec.hash.sizes);
  return spec;
}

const HashTableNames kNames{.table = "table",
                            .shards = "table.shard_",
                            .key_proj = "key",
                            .value_proj = "value",
                            .key_norm = "norm_key",
                            .query_norm = "norm_query",
                            .conv_norm = "norm_conv",
                            .conv = "conv"};

// Random tensors, which the source also has under "name.weight".
class Weights {
 public:
  explicit Weights(bool is_whole) {
    const std::size_t embed_dim = spec().embed_dim();
    table_ = random_.numbers(2 * kRowsOfShard * kRowSize);
    if (is_whole) {
      source_.add("table.weight", {2 * kRowsOfShard, kRowSize}, table_);
    } else {
      const auto middle = table_.begin() + kRowsOfShard * kRowSize;
      source_.add("table.shard_0.weight", {kRowsOfShard, kRowSize}, {table_.begin(), middle});
      source_.add("table.shard_1.weight", {kRowsOfShard, kRowSize}, {middle, table_.end()});
    }
    key = add("key", kChannels, embed_dim);
    value = add("value", kSize, embed_dim);
    key_gain = add("norm_key", 1, kChannels);
    query_gain = add("norm_query", 1, kChannels);
    conv_gain = add("norm_conv", 1, kChannels);
    conv = add("conv", kChannels, kTaps);
  }

  const test::MemoryWeights& source() const { return source_; }
  float table(std::size_t row, std::size_t column) const { return table_[row * kRowSize + column]; }

  Matrix key;
  Matrix value;
  Matrix key_gain;
  Matrix query_gain;
  Matrix conv_gain;
  Matrix conv;

 private:
  Matrix add(const std::string& name, std::size_t rows, std::size_t columns) {
    std::vector<float> values = random_.numbers(rows * columns);
    const Matrix matrix(TensorView<const float>(values.data(), rows, columns));
    source_.add(name + ".weight", {rows, columns}, std::move(values));
    return matrix;
  }

  Random random_{7};
  test::MemoryWeights source_;
  std::vector<float> table_;
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

Matrix normed(Matrix x, const Matrix& gain) {
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t first = 0; first < kChannels; first += kSize) {
      double squares = 0.0;
      for (std::size_t i = first; i < first + kSize; ++i) squares += x(t, i) * x(t, i);
      const double rms = std::sqrt(squares / kSize + 1e-3F);
      for (std::size_t i = first; i < first + kSize; ++i) x(t, i) = x(t, i) / rms * (1.0 + gain(0, i));
    }
  }
  return x;
}

// The table's rows of each token, from the beginning of the sequence.
Matrix rows_of(const Weights& weights, const std::vector<TokenId>& tokens) {
  const HashTableSpec table = spec();
  Matrix found(tokens.size(), table.embed_dim());
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    std::array<TokenId, 3> window{};
    for (std::size_t back = 0; back < 3; ++back)
      window[back] = back <= t ? tokens[t - back] : NgramHash::kNoToken;
    std::array<std::uint64_t, 4> rows{};
    table.hash.rows(window, rows);
    for (std::size_t i = 0; i < found.columns; ++i)
      found(t, i) = weights.table(rows[i / kRowSize], i % kRowSize);
  }
  return found;
}

// The whole sequence by the definition, in double precision.
Matrix expected_of(const Weights& weights, const std::vector<TokenId>& tokens,
                   TensorView<const float> streams) {
  const Matrix found = rows_of(weights, tokens);
  const Matrix keys = normed(reference::matmul(found, weights.key), weights.key_gain);
  const Matrix value = reference::matmul(found, weights.value);
  const Matrix query = normed(Matrix(streams), weights.query_gain);
  Matrix gated(tokens.size(), kChannels);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::size_t first = 0; first < kChannels; first += kSize) {
      double d = 0.0;
      for (std::size_t i = first; i < first + kSize; ++i) d += keys(t, i) * query(t, i);
      d /= std::sqrt(double{kSize});
      const double gate = sigmoid(std::copysign(std::sqrt(std::max(std::abs(d), 1e-6)), d));
      for (std::size_t i = 0; i < kSize; ++i) gated(t, first + i) = gate * value(t, i);
    }
  }
  const Matrix input = normed(gated, weights.conv_gain);
  Matrix out = gated;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    for (std::size_t i = 0; i < kChannels; ++i) {
      double sum = 0.0;
      for (std::size_t tap = 0; tap < kTaps; ++tap) {
        const std::size_t back = (kTaps - 1 - tap) * 3;
        if (back <= t) sum += weights.conv(i, tap) * input(t - back, i);
      }
      out(t, i) += sum * sigmoid(sum);
    }
  }
  return out;
}

class HashTables : public testing::TestWithParam<bool> {
 protected:
  HashTables()
      : weights_(GetParam()),
        loader_(weights_.source(), {test::world().rank(), test::world().size()}, WeightType::f32, {}),
        table_(loader_, spec(), kSize, kNames),
        streams_(random_, kTokens, kChannels, 5),
        states_(std::vector<std::size_t>{table_.state_floats()}, 3),
        workspace_(100000) {
    for (std::size_t i = 0; i < kTokens; ++i)
      tokens_.push_back(static_cast<TokenId>(random_.integer(0, 6)));  // 4 ends a text
  }

  // Tokens [begin, end) of the sequence on the state in `slot`.
  Matrix run(std::size_t begin, std::size_t end, StateSpan state) {
    Batch batch;
    batch.tokens.assign(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                        tokens_.begin() + static_cast<std::ptrdiff_t>(end));
    batch.spans = {{{.first_token = 0, .tokens = end - begin, .start_position = begin, .block_table = {}}}};
    batch.states = {std::move(state)};
    const Workspace::Frame frame(workspace_);
    const StepContext step{
        .batch = batch, .workspace = workspace_, .states = states_.layer(0), .comm = &test::world()};
    return Matrix(table_(streams_.view().rows_from(begin, end - begin), step));
  }

  void expect_rows(const Matrix& found, std::size_t begin, const Matrix& expected) {
    for (std::size_t t = 0; t < found.rows; ++t) {
      for (std::size_t i = 0; i < kChannels; ++i)
        EXPECT_NEAR(found(t, i), expected(begin + t, i), kTolerance) << "token " << begin + t;
    }
  }

  Random random_{3};
  Weights weights_;
  WeightLoader loader_;
  HashTable table_;
  RandomTensor streams_;
  std::vector<TokenId> tokens_;
  StateCache states_;
  Workspace workspace_;
};

TEST_P(HashTables, AddWhatTheDefinitionSays) {
  expect_rows(run(0, kTokens, {.slot = 0}), 0, expected_of(weights_, tokens_, streams_.view()));
}

// Chunks of one token and more, a state that was in use before, and a copy from the middle of a chunk, on
// which the rest of the sequence is computed again.
TEST_P(HashTables, ContinueFromTheirStates) {
  const Matrix expected = expected_of(weights_, tokens_, streams_.view());
  run(0, 5, {.slot = 1});
  expect_rows(run(0, 1, {.slot = 1}), 0, expected);
  expect_rows(run(1, 3, {.slot = 1}), 1, expected);
  expect_rows(run(3, 15, {.slot = 1, .saves = {{.tokens = 1, .slot = 0}, {.tokens = 7, .slot = 2}}}), 3,
              expected);
  expect_rows(run(10, kTokens, {.slot = 2}), 10, expected);
  expect_rows(run(4, 6, {.slot = 0}), 4, expected);
}

// Over all ranks, each row is there once.
TEST_P(HashTables, AreDividedByRows) {
  std::vector<double> counts(2 * kRowsOfShard);
  std::array<float, kRowSize> row{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (!table_.rows().copy_row(i, row.data())) continue;
    counts[i] = 1.0;
    for (std::size_t j = 0; j < kRowSize; ++j) EXPECT_EQ(row[j], weights_.table(i, j));
  }
  exchange_sum(test::world(), counts);
  EXPECT_EQ(counts, std::vector<double>(counts.size(), 1.0));
}

INSTANTIATE_TEST_SUITE_P(Storage, HashTables, testing::Bool(),
                         [](const auto& info) { return info.param ? "OneTensor" : "Shards"; });

}  // namespace
}  // namespace tp
