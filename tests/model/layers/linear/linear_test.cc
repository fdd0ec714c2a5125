#include "model/layers/linear/linear.h"

#include "model/layers/embedding.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "parallel/exchange/collectives.h"
#include "tests/model/kernels/expect_close.h"
#include "tests/mpi_test.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"
#include "tests/reference/stored_weights.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;
using reference::stored;

// Weights have a standard deviation of 1/sqrt(in_features) and inputs are in [-1, 1). So sums are near 1, and
// float32 keeps them to some 1e-6 in any order.
constexpr double kTolerance = 5e-6;

Matrix unsharded(const WeightSource& source, const std::string& layer, MatrixShape shape, const Matrix& x,
                 bool bias) {
  Matrix y = reference::matmul(x, stored(source, layer + ".weight", shape));
  if (bias) reference::add_bias(stored(source, layer + ".bias", {1, shape.rows}).values, y);
  return y;
}

Matrix columns_of(const Matrix& whole, Range columns) {
  Matrix part(whole.rows, columns.size());
  for (std::size_t r = 0; r < part.rows; ++r) {
    for (std::size_t c = 0; c < part.columns; ++c) part(r, c) = whole(r, columns.begin + c);
  }
  return part;
}

TEST(ColumnParallelLinear, GivesThisRanksColumnsOfTheUnshardedLayer) {
  Communicator& comm = test::world();
  const TpRank tp{comm.rank(), comm.size()};
  const SyntheticWeights source(DType::f32, 1);
  for (const std::size_t out_features : {3U, 4U, 17U, 64U}) {
    for (const bool bias : {false, true}) {
      const MatrixShape shape{out_features, 29};
      WeightLoader loader(source, tp, WeightType::f32, {});
      const Range own = split_evenly(out_features, tp);
      const std::vector<OwnedRows> rows = {{{"layer", shape, ""}, own}};
      const ColumnParallelLinear layer(loader, rows, bias);
      Random random(out_features);
      const RandomTensor x(random, 5, 29);
      Workspace workspace(10000);
      const StepContext step{{}, workspace};
      const TensorView<float> y = layer(x.view(), step);
      EXPECT_CLOSE(y, columns_of(unsharded(source, "layer", shape, Matrix(x.view()), bias), own), kTolerance);
    }
  }
}

TEST(ColumnParallelLinear, PutsSeveralLayersSideBySide) {
  Communicator& comm = test::world();
  const TpRank tp{comm.rank(), comm.size()};
  const SyntheticWeights source(DType::f32, 2);
  const MatrixShape first{12, 10};
  const MatrixShape second{7, 10};
  const Range own_first = split_evenly(12, tp);
  const Range own_second = split_evenly(7, tp);
  WeightLoader loader(source, tp, WeightType::f32, {});
  const std::vector<OwnedRows> rows = {{{"first", first, ""}, own_first},
                                       {{"second", second, ""}, own_second}};
  const ColumnParallelLinear layer(loader, rows, true);
  Random random(3);
  const RandomTensor x(random, 2, 10);
  Workspace workspace(10000);
  const StepContext step{{}, workspace};
  const TensorView<float> y = layer(x.view(), step);
  EXPECT_CLOSE(y.columns_from(0, own_first.size()),
               columns_of(unsharded(source, "first", first, Matrix(x.view()), true), own_first), kTolerance);
  EXPECT_CLOSE(y.columns_from(own_first.size(), own_second.size()),
               columns_of(unsharded(source, "second", second, Matrix(x.view()), true), own_second),
               kTolerance);
}

// With three input features on four ranks, one rank has only a zero. The bias must be counted once.
TEST(RowParallelLinear, SumOverRanksEqualsUnshardedLayer) {
  Communicator& comm = test::world();
  const TpRank tp{comm.rank(), comm.size()};
  const SyntheticWeights source(DType::f32, 4);
  for (const std::size_t in_features : {3U, 4U, 19U, 70U}) {
    for (const std::size_t tokens : {1U, 3U, 12U}) {
      for (const bool bias : {false, true}) {
        const MatrixShape shape{13, in_features};
        const Range own = split_evenly(in_features, tp);
        WeightLoader loader(source, tp, WeightType::f32, {});
        const RowParallelLinear layer(loader, {"layer", shape, ""}, own, bias);
        Random random(in_features);
        const RandomTensor x(random, tokens, in_features);
        Workspace workspace(10000);
        const StepContext step{{}, workspace};
        const TensorView<float> y =
            all_reduce(comm, layer(x.view().columns_from(own.begin, own.size()), step));
        EXPECT_CLOSE(y, unsharded(source, "layer", shape, Matrix(x.view()), bias), kTolerance)
            << in_features << " features, " << tokens << " tokens, bias " << bias;
      }
    }
  }
}

// A gated layer and the next one may have different types, which use tiles for different numbers of tokens.
// The sums have equal bits, because equal numbers are rounded.
TEST(ColumnParallelLinear, GivesGatedActivationsInTheNextLayersForm) {
  Communicator& comm = test::world();
  const TpRank tp{comm.rank(), comm.size()};
  const SyntheticWeights source(DType::f32, 5);
  const std::size_t hidden = 48;
  const std::size_t size = 64 * comm.size();
  const Range own = split_evenly(size, tp);
  const std::vector<OwnedRows> rows = {{{"gate", {size, hidden}, ""}, own},
                                       {{"up", {size, hidden}, ""}, own}};
  constexpr WeightType kTypes[] = {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::int8,
                                   WeightType::int4};
  for (const WeightType gate_type : kTypes) {
    WeightLoader gate_loader(source, tp, gate_type, {});
    const ColumnParallelLinear gate_up(gate_loader, rows, false);
    for (const WeightType down_type : kTypes) {
      WeightLoader down_loader(source, tp, down_type, {});
      const RowParallelLinear down(down_loader, {"down", {hidden, size}, ""}, own, false);
      for (const std::size_t tokens : {1U, 5U, 13U, 17U, 40U}) {
        Random random(tokens);
        const RandomTensor x(random, tokens, hidden);
        Workspace workspace(200000);
        const StepContext step{{}, workspace};
        constexpr auto kSilu = kernels::Activation::silu;
        const TensorView<float> y =
            all_reduce(comm, down(gate_up.gated_for(down, x.view(), kSilu, step), step));
        const TensorView<float> expected = all_reduce(comm, down(gate_up.gated(x.view(), kSilu, step), step));
        for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y.data()[i], expected.data()[i]) << i;
      }
    }
  }
}

// Returns the transposed matrix, because a checkpoint may store a weight as [in_features, out_features].
Matrix transposed(const Matrix& matrix) {
  Matrix out(matrix.columns, matrix.rows);
  for (std::size_t r = 0; r < matrix.rows; ++r) {
    for (std::size_t c = 0; c < matrix.columns; ++c) out(c, r) = matrix(r, c);
  }
  return out;
}

TEST(TransposedWeights, AreReadAsTheirTransposesInBothKindsOfLayers) {
  Communicator& comm = test::world();
  const TpRank tp{comm.rank(), comm.size()};
  const SyntheticWeights source(DType::f32, 9);
  const MatrixShape shape{45, 70};  // more rows than a panel
  const StoredLayer stored_layer{"layer", shape, "", "", true};
  const Matrix weight = transposed(stored(source, "layer.weight", {shape.columns, shape.rows}));
  WeightLoader loader(source, tp, WeightType::f32, {});
  const Range outputs = split_evenly(shape.rows, tp);
  const Range inputs = split_evenly(shape.columns, tp);
  const ColumnParallelLinear by_columns(loader, std::vector<OwnedRows>{{stored_layer, outputs}}, false);
  const RowParallelLinear by_rows(loader, stored_layer, inputs, false);
  Random random(10);
  const RandomTensor x(random, 3, shape.columns);
  const Matrix expected = reference::matmul(Matrix(x.view()), weight);
  Workspace workspace(10000);
  const StepContext step{{}, workspace};
  EXPECT_CLOSE(by_columns(x.view(), step), columns_of(expected, outputs), kTolerance);
  const TensorView<float> sum =
      all_reduce(comm, by_rows(x.view().columns_from(inputs.begin, inputs.size()), step));
  EXPECT_CLOSE(sum, expected, kTolerance);
}

TEST(PartialSum, AddsUpBeforeOneAllReduce) {
  Communicator& comm = test::world();
  std::vector<float> first = {1.0F, 2.0F, 3.0F};
  std::vector<float> second = {10.0F, 20.0F, 30.0F};
  PartialSum sum(TensorView<float>(first.data(), 1, 3));
  sum += PartialSum(TensorView<float>(second.data(), 1, 3));
  const TensorView<float> total = all_reduce(comm, std::move(sum));
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(total(0, i), 11.0F * static_cast<float>((i + 1) * comm.size()));
}

TEST(VocabParallelEmbedding, SumOverRanksIsTheRowOfEveryToken) {
  Communicator& comm = test::world();
  const SyntheticWeights source(DType::f32, 5);
  const MatrixShape shape{37, 6};
  WeightLoader loader(source, {comm.rank(), comm.size()}, WeightType::f32, {});
  const auto shard = std::make_shared<const VocabShard>(loader, "table", shape.rows, shape.columns);
  const VocabParallelEmbedding embedding(shard, 1.0F, nullptr);
  std::vector<TokenId> tokens;
  for (TokenId id = 36; id >= 0; --id) tokens.push_back(id);
  const Batch batch{.tokens = tokens, .positions = std::vector<std::size_t>(tokens.size())};
  Workspace workspace(10000);
  const StepContext step{batch, workspace};
  const TensorView<float> vectors = all_reduce(comm, embedding(step));
  const Matrix table = stored(source, "table.weight", shape);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    for (std::size_t i = 0; i < shape.columns; ++i)
      EXPECT_EQ(vectors(row, i),
                table(static_cast<std::size_t>(tokens[row]), i));  // sums with zeros are exact
  }
}

TEST(VocabParallelEmbedding, ScalesTokensAndAddsLearnedPositions) {
  Communicator& comm = test::world();
  const SyntheticWeights source(DType::f32, 5);
  const MatrixShape shape{37, 6};
  const MatrixShape positions_shape{19, 6};
  WeightLoader loader(source, {comm.rank(), comm.size()}, WeightType::f32, {});
  const VocabParallelEmbedding embedding(
      std::make_shared<const VocabShard>(loader, "table", shape.rows, shape.columns), 2.5F,
      std::make_shared<const VocabShard>(loader, "positions", positions_shape.rows, shape.columns));
  const std::vector<TokenId> tokens = {36, 0, 17, 17};
  const std::vector<std::size_t> positions = {0, 18, 9, 3};
  const Batch batch{.tokens = tokens, .positions = positions};
  Workspace workspace(10000);
  const StepContext step{batch, workspace};
  const TensorView<float> vectors = all_reduce(comm, embedding(step));
  const Matrix table = stored(source, "table.weight", shape);
  const Matrix position_table = stored(source, "positions.weight", positions_shape);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    for (std::size_t i = 0; i < shape.columns; ++i) {
      EXPECT_NEAR(vectors(row, i),
                  2.5 * table(static_cast<std::size_t>(tokens[row]), i) + position_table(positions[row], i),
                  kTolerance);
    }
  }
}

// Rows 0 and 1 belong to no position, as in OPT.
TEST(VocabParallelEmbedding, FindsPositionZeroInTheModelsRow) {
  Communicator& comm = test::world();
  const SyntheticWeights source(DType::f32, 5);
  const MatrixShape shape{11, 6};
  WeightLoader loader(source, {comm.rank(), comm.size()}, WeightType::f32, {});
  const auto shard = [&](const char* name) {
    return std::make_shared<const VocabShard>(loader, name, shape.rows, shape.columns);
  };
  const VocabParallelEmbedding embedding(shard("table"), 0.0F, shard("positions"), 2);
  const Batch batch{.tokens = {0, 0, 0}, .positions = {0, 8, 3}};
  Workspace workspace(10000);
  const TensorView<float> vectors = all_reduce(comm, embedding({batch, workspace}));
  const Matrix table = stored(source, "positions.weight", shape);
  for (std::size_t row = 0; row < batch.positions.size(); ++row) {
    for (std::size_t i = 0; i < shape.columns; ++i)
      EXPECT_EQ(vectors(row, i), table(batch.positions[row] + 2, i));
  }
}

TEST(LmHead, GivesTheLogitsOfThisRanksTokens) {
  Communicator& comm = test::world();
  const SyntheticWeights source(DType::f32, 6);
  const MatrixShape shape{41, 24};
  WeightLoader loader(source, {comm.rank(), comm.size()}, WeightType::f32, {});
  const LmHead head(std::make_shared<const VocabShard>(loader, "head", shape.rows, shape.columns), {}, 1.0F,
                    {});
  Random random(7);
  const RandomTensor x(random, 3, 24);
  Workspace workspace(10000);
  const StepContext step{{}, workspace};
  const TensorView<float> logits = head(x.view(), step);
  EXPECT_CLOSE(logits, columns_of(unsharded(source, "head", shape, Matrix(x.view()), false), head.tokens()),
               kTolerance);
}

TEST(LmHead, AddsTheBiasesOfItsTokensBeforeItScales) {
  Communicator& comm = test::world();
  const SyntheticWeights source(DType::f32, 6);
  const MatrixShape shape{41, 24};
  WeightLoader loader(source, {comm.rank(), comm.size()}, WeightType::f32, {});
  const auto shard = std::make_shared<const VocabShard>(loader, "head", shape.rows, shape.columns);
  const std::vector<OwnedRows> own = {{{"head", shape}, shard->tokens()}};
  const LmHead head(shard, loader.rows_of_biases(own), 0.25F, {});
  Random random(7);
  const RandomTensor x(random, 3, 24);
  Workspace workspace(10000);
  Matrix expected = columns_of(unsharded(source, "head", shape, Matrix(x.view()), true), head.tokens());
  for (double& logit : expected.values) logit *= 0.25;
  const StepContext step{{}, workspace};
  EXPECT_CLOSE(head(x.view(), step), expected, kTolerance);
}

}  // namespace
}  // namespace tp
