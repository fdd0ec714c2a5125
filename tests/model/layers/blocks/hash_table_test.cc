#include "model/layers/blocks/hash_table.h"

#include "model/weights/open_checkpoint.h"
#include "parallel/exchange/collectives.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/memory_weights.h"
#include "tests/mpi_test.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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

// Qwen's table, as one tensor or in shards, and DeepSeek's Engram.
enum class Kind : std::uint8_t { one_tensor, shards, engram };

HashTableSpec spec(Kind kind) {
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
  if (kind != Kind::engram) return spec;
  spec.hash.boundary_cuts = false;
  spec.hash.folded_size = 4;
  spec.hash.folded = {0, 1, 1, 2, 0, 3, 2};
  spec.shards = 1;
  spec.conv_kernel = 0;
  spec.zero_has_sign = true;
  spec.norm.gain_offset = 0.0F;
  return spec;
}

const HashTableNames kEngramNames{
    .table = "table", .key_value_proj = "key_value", .key_gain = "k_weight", .query_gain = "q_weight"};
const HashTableNames kNames{.table = "table",
                            .shards = "table.shard_",
                            .key_proj = "key",
                            .value_proj = "value",
                            .key_norm = "norm_key",
                            .query_norm = "norm_query",
                            .conv_norm = "norm_conv",
                            .conv = "conv"};

// Random tensors, the same in each object. The source has Qwen's under "name.weight".
class Weights {
 public:
  explicit Weights(Kind kind, bool are_mapped = false) {
    if (are_mapped) source_.map_rows();
    const std::size_t embed_dim = spec(kind).embed_dim();
    table_ = random_.numbers(2 * kRowsOfShard * kRowSize);
    if (kind != Kind::shards) {
      source_.add("table.weight", {2 * kRowsOfShard, kRowSize}, table_);
    } else {
      const auto middle = table_.begin() + kRowsOfShard * kRowSize;
      source_.add("table.shard_0.weight", {kRowsOfShard, kRowSize}, {table_.begin(), middle});
      source_.add("table.shard_1.weight", {kRowsOfShard, kRowSize}, {middle, table_.end()});
    }
    if (kind == Kind::engram)
      add_engram(embed_dim);
    else
      add_ple(embed_dim);
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

  void add_ple(std::size_t embed_dim) {
    key = add("key", kChannels, embed_dim);
    value = add("value", kSize, embed_dim);
    key_gain = add("norm_key", 1, kChannels);
    query_gain = add("norm_query", 1, kChannels);
    conv_gain = add("norm_conv", 1, kChannels);
    conv = add("conv", kChannels, kTaps);
  }

  void add_engram(std::size_t embed_dim) {
    std::vector<float> both = random_.numbers((kChannels + kSize) * embed_dim);
    key = Matrix(TensorView<const float>(both.data(), kChannels, embed_dim));
    value = Matrix(TensorView<const float>(both.data() + kChannels * embed_dim, kSize, embed_dim));
    source_.add("key_value.weight", {kChannels + kSize, embed_dim}, std::move(both));
    key_gain = add_gain("k_weight");
    query_gain = add_gain("q_weight");
  }

  Matrix add_gain(const std::string& name) {
    std::vector<float> values = random_.numbers(kChannels);
    const Matrix gain(TensorView<const float>(values.data(), 1, kChannels));
    source_.add(name, {kStreams, kSize}, std::move(values));
    return gain;
  }

  Random random_{7};
  test::MemoryWeights source_;
  std::vector<float> table_;
};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

Matrix normed(Matrix x, const Matrix& gain, double gain_offset) {
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t first = 0; first < kChannels; first += kSize) {
      double squares = 0.0;
      for (std::size_t i = first; i < first + kSize; ++i) squares += x(t, i) * x(t, i);
      const double rms = std::sqrt(squares / kSize + 1e-3F);
      for (std::size_t i = first; i < first + kSize; ++i)
        x(t, i) = x(t, i) / rms * (gain_offset + gain(0, i));
    }
  }
  return x;
}

// The table's rows of each token, from the beginning of the sequence.
Matrix rows_of(const Weights& weights, const HashTableSpec& table, const std::vector<TokenId>& tokens) {
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
Matrix expected_of(const Weights& weights, const HashTableSpec& spec, const std::vector<TokenId>& tokens,
                   TensorView<const float> streams) {
  const double offset = spec.norm.gain_offset;
  const Matrix found = rows_of(weights, spec, tokens);
  const Matrix keys = normed(reference::matmul(found, weights.key), weights.key_gain, offset);
  const Matrix value = reference::matmul(found, weights.value);
  const Matrix query = normed(Matrix(streams), weights.query_gain, offset);
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
  if (spec.conv_kernel == 0) return gated;
  const Matrix input = normed(gated, weights.conv_gain, offset);
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

class HashTables : public testing::TestWithParam<Kind> {
 protected:
  HashTables()
      : weights_(GetParam()),
        loader_(weights_.source(), {test::world().rank(), test::world().size()}, WeightType::f32, {}),
        spec_(spec(GetParam())),
        table_(loader_, spec_, kSize, GetParam() == Kind::engram ? kEngramNames : kNames),
        streams_(random_, kTokens, kChannels, 5),
        states_(std::vector<std::size_t>{table_.state_floats()}, 3),
        workspace_(100000) {
    for (std::size_t i = 0; i < kTokens; ++i)
      tokens_.push_back(static_cast<TokenId>(random_.integer(0, 6)));  // 4 ends a text
  }

  // Tokens [begin, end) of the sequence on the state in `slot`.
  Matrix run(std::size_t begin, std::size_t end, StateSpan state) {
    return run(table_, begin, end, std::move(state));
  }
  Matrix run(const HashTable& table, std::size_t begin, std::size_t end, StateSpan state) {
    Batch batch;
    batch.tokens.assign(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                        tokens_.begin() + static_cast<std::ptrdiff_t>(end));
    batch.spans = {{{.first_token = 0, .tokens = end - begin, .start_position = begin, .block_table = {}}}};
    batch.states = {std::move(state)};
    const Workspace::Frame frame(workspace_);
    const StepContext step{
        .batch = batch, .workspace = workspace_, .states = states_.layer(0), .comm = &test::world()};
    table.announce_rows(step);
    return Matrix(table(streams_.view().rows_from(begin, end - begin), step));
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
  HashTableSpec spec_;
  HashTable table_;
  RandomTensor streams_;
  std::vector<TokenId> tokens_;
  StateCache states_;
  Workspace workspace_;
};

TEST_P(HashTables, AddWhatTheDefinitionSays) {
  expect_rows(run(0, kTokens, {.slot = 0}), 0, expected_of(weights_, spec_, tokens_, streams_.view()));
}

// Chunks of one token and more, a state that was in use before, and a copy from the middle of a chunk, on
// which the rest of the sequence is computed again.
TEST_P(HashTables, ContinueFromTheirStates) {
  const Matrix expected = expected_of(weights_, spec_, tokens_, streams_.view());
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

// Every rank has all rows of a mapped table, so it exchanges nothing, and the results have the same bits.
TEST_P(HashTables, MayStayInFiles) {
  const Weights weights(GetParam(), /*are_mapped=*/true);
  WeightLoader loader(weights.source(), {test::world().rank(), test::world().size()}, WeightType::f32, {});
  const HashTable mapped(loader, spec_, kSize, GetParam() == Kind::engram ? kEngramNames : kNames);
  ASSERT_TRUE(mapped.rows().are_mapped());
  EXPECT_FALSE(table_.rows().are_mapped());
  EXPECT_EQ(loader.loaded().mapped_bytes, 2 * kRowsOfShard * kRowSize * sizeof(float));
  EXPECT_EQ(loader.loaded().elements, loader_.loaded().elements - table_.rows().loaded().elements);
  const std::vector<Range> chunks = {{0, 1}, {1, 9}, {9, kTokens}};
  for (const auto& [begin, end] : chunks) {
    const Matrix expected = run(begin, end, {.slot = 0});
    const std::uint64_t before = test::world().stats().all_reduce.calls;
    const Matrix found = run(mapped, begin, end, {.slot = 1});
    EXPECT_EQ(test::world().stats().all_reduce.calls, before);
    EXPECT_EQ(found.values, expected.values) << "tokens " << begin << " to " << end;
  }
}

// Memory of other hosts may be faster than a disk.
TEST_P(HashTables, AreDividedIfTheSpecSaysSo) {
  const Weights weights(GetParam(), /*are_mapped=*/true);
  WeightLoader loader(weights.source(), {test::world().rank(), test::world().size()}, WeightType::f32, {});
  HashTableSpec divided = spec_;
  divided.is_divided = true;
  const HashTable table(loader, divided, kSize, GetParam() == Kind::engram ? kEngramNames : kNames);
  EXPECT_FALSE(table.rows().are_mapped());
  EXPECT_EQ(loader.loaded().mapped_bytes, 0U);
  EXPECT_EQ(loader.loaded().elements, loader_.loaded().elements);
}

// A state consists of the last tokens, and of the convolution's rows.
TEST_P(HashTables, HaveAStateOfTwoTokensAndTheConvolution) {
  const std::vector<StatePart::Rows> rows = table_.state_rows();
  EXPECT_EQ(rows.front().floats, 2U);
  EXPECT_EQ(rows.size(), GetParam() == Kind::engram ? 1U : 2U);
  EXPECT_EQ(table_.state_floats() == kernels::padded(2), GetParam() == Kind::engram);
}

INSTANTIATE_TEST_SUITE_P(Kinds, HashTables, testing::Values(Kind::one_tensor, Kind::shards, Kind::engram),
                         [](const auto& info) {
                           return info.param == Kind::engram       ? "Engram"
                                  : info.param == Kind::one_tensor ? "OneTensor"
                                                                   : "Shards";
                         });

// Returns how many ranks have each row, after comparing the rows.
std::vector<double> ranks_with_rows(const HashRows& rows, std::size_t count, std::size_t columns,
                                    const std::vector<std::uint8_t>& scales) {
  std::vector<double> counts(count);
  std::vector<float> row(columns);
  for (std::size_t i = 0; i < count; ++i) {
    if (!rows.copy_row(i, row.data())) continue;
    counts[i] = 1.0;
    for (std::size_t j = 0; j < columns; ++j) {
      const double magnitude = 1.0 + static_cast<double>((i * columns + j) % 8) / 8;  // 0x38 is 1
      EXPECT_EQ(row[j], std::ldexp(magnitude, scales[2 * i + j / 32] - 127)) << i << ", " << j;
    }
  }
  exchange_sum(test::world(), counts);
  return counts;
}

// A published table: FP8 in groups of 32 columns, each with an exponent. It stays in the file, or ranks
// divide it.
TEST(HashRowsOfFp8, HaveTheValuesOfTheFile) {
  constexpr std::size_t kRows = 13;
  constexpr std::size_t kColumns = 64;
  std::vector<std::uint8_t> elements(kRows * kColumns);
  std::vector<std::uint8_t> scales(kRows * 2);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<std::uint8_t>(0x38 + i % 8);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::uint8_t>(120 + i % 11);
  const test::TemporaryDirectory directory;
  directory.write("config.json", nlohmann::json{{"quantization_config",
                                                 {{"quant_method", "fp8"},
                                                  {"fmt", "e4m3"},
                                                  {"scale_fmt", "ue8m0"},
                                                  {"activation_scheme", "dynamic"},
                                                  {"weight_block_size", {128, 128}}}}}
                                     .dump());
  directory.write(
      "model.safetensors",
      test::safetensors_file({{"engram.embed.weight", "F8_E4M3", {kRows, kColumns}, test::bytes_of(elements)},
                              {"engram.embed.scale", "F8_E8M0", {kRows, 2}, test::bytes_of(scales)}}));
  const auto source = open_checkpoint(directory.path());
  WeightLoader loader(*source, {test::world().rank(), test::world().size()}, std::nullopt, {});
  HashTableSpec spec{.row_size = kColumns, .rows = kRows};
  const HashTableNames names{.table = "engram.embed"};
  const HashRows mapped(loader, spec, names);
  EXPECT_EQ(mapped.loaded().mapped_bytes, kRows * (kColumns + 2));
  EXPECT_EQ(mapped.loaded().bytes, 0U);
  EXPECT_EQ(ranks_with_rows(mapped, kRows, kColumns, scales),
            std::vector<double>(kRows, static_cast<double>(test::world().size())));

  spec.is_divided = true;
  const HashRows parts(loader, spec, names);
  EXPECT_EQ(parts.loaded().mapped_bytes, 0U);
  EXPECT_LE(parts.loaded().bytes, 2 * (kRows + 31) * kColumns);  // stays FP8, in whole panels
  EXPECT_EQ(ranks_with_rows(parts, kRows, kColumns, scales), std::vector<double>(kRows, 1.0));

  // The ids of stored rows cannot be known without the tokenizer.
  spec.hash.folded_size = 4;
  EXPECT_CONTAINS(test::error_of<CheckpointError>([&] { HashRows(loader, spec, names); }),
                  "expected tokenizer.json beside config.json");
  spec.hash.folded = {0, 1, 2, 3};
  EXPECT_NO_THROW(HashRows(loader, spec, names));
}

}  // namespace
}  // namespace tp
