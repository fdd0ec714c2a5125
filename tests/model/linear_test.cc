#include "model/linear.h"

#include "model/checkpoint/synthetic_weights.h"
#include "model/embedding.h"
#include "parallel/collectives.h"
#include "tests/kernels/expect_close.h"
#include "tests/mpi_test.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <cstring>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

// Weights have a standard deviation of 1/sqrt(in_features) and inputs are in [-1, 1): sums are near 1, and
// float32 keeps them to some 1e-6 in whatever order they are taken.
constexpr double kTolerance = 5e-6;

Matrix stored(const WeightSource& source, const std::string& name, MatrixShape shape) {
  std::vector<float> values(shape.size());
  const TensorView<float> view(values.data(), shape.rows, shape.columns);
  source.read(name, shape, TensorSlice::whole(shape), view);
  return Matrix(view);
}

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
  const RankOf part{comm.rank(), comm.size()};
  const SyntheticWeights source(DType::f32, 1);
  for (const std::size_t out_features : {3U, 4U, 17U, 64U}) {
    for (const bool bias : {false, true}) {
      const MatrixShape shape{out_features, 29};
      WeightLoader loader(source, part, WeightType::f32, {});
      const Range own = split_evenly(out_features, part);
      const std::vector<OwnedRows> rows = {{{"layer", shape, ""}, own}};
      const ColumnParallelLinear layer(loader, rows, bias);
      Random random(out_features);
      const RandomTensor x(random, 5, 29);
      Workspace workspace(10000);
      const TensorView<float> y = layer(x.view(), workspace);
      EXPECT_CLOSE(y, columns_of(unsharded(source, "layer", shape, Matrix(x.view()), bias), own), kTolerance);
    }
  }
}

TEST(ColumnParallelLinear, PutsSeveralLayersSideBySide) {
  Communicator& comm = test::world();
  const RankOf part{comm.rank(), comm.size()};
  const SyntheticWeights source(DType::f32, 2);
  const MatrixShape first{12, 10};
  const MatrixShape second{7, 10};
  const Range own_first = split_evenly(12, part);
  const Range own_second = split_evenly(7, part);
  WeightLoader loader(source, part, WeightType::f32, {});
  const std::vector<OwnedRows> rows = {{{"first", first, ""}, own_first},
                                       {{"second", second, ""}, own_second}};
  const ColumnParallelLinear layer(loader, rows, true);
  Random random(3);
  const RandomTensor x(random, 2, 10);
  Workspace workspace(10000);
  const TensorView<float> y = layer(x.view(), workspace);
  EXPECT_CLOSE(y.columns_from(0, own_first.size()),
               columns_of(unsharded(source, "first", first, Matrix(x.view()), true), own_first), kTolerance);
  EXPECT_CLOSE(y.columns_from(own_first.size(), own_second.size()),
               columns_of(unsharded(source, "second", second, Matrix(x.view()), true), own_second),
               kTolerance);
}

// Three input features on four ranks leave one with nothing but its zero; the bias must be counted once.
TEST(RowParallelLinear, SumOverRanksEqualsUnshardedLayer) {
  Communicator& comm = test::world();
  const RankOf part{comm.rank(), comm.size()};
  const SyntheticWeights source(DType::f32, 4);
  for (const std::size_t in_features : {3U, 4U, 19U, 70U}) {
    for (const std::size_t tokens : {1U, 3U, 12U}) {
      for (const bool bias : {false, true}) {
        const MatrixShape shape{13, in_features};
        const Range own = split_evenly(in_features, part);
        WeightLoader loader(source, part, WeightType::f32, {});
        const RowParallelLinear layer(loader, {"layer", shape, ""}, own, bias);
        Random random(in_features);
        const RandomTensor x(random, tokens, in_features);
        Workspace workspace(10000);
        const TensorView<float> y =
            all_reduce(comm, layer(x.view().columns_from(own.begin, own.size()), workspace));
        EXPECT_CLOSE(y, unsharded(source, "layer", shape, Matrix(x.view()), bias), kTolerance)
            << in_features << " features, " << tokens << " tokens, bias " << bias;
      }
    }
  }
}

TEST(VocabParallelEmbedding, SumOverRanksIsTheRowOfEveryToken) {
  Communicator& comm = test::world();
  const SyntheticWeights source(DType::f32, 5);
  const MatrixShape shape{37, 6};
  WeightLoader loader(source, {comm.rank(), comm.size()}, WeightType::f32, {});
  const auto shard = std::make_shared<const VocabShard>(loader, "table", shape.rows, shape.columns);
  const VocabParallelEmbedding embedding(shard);
  std::vector<TokenId> tokens;
  for (TokenId id = 36; id >= 0; --id) tokens.push_back(id);
  Workspace workspace(10000);
  const TensorView<float> vectors = all_reduce(comm, embedding(tokens, workspace));
  const Matrix table = stored(source, "table.weight", shape);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    for (std::size_t i = 0; i < shape.columns; ++i)
      EXPECT_EQ(vectors(row, i),
                table(static_cast<std::size_t>(tokens[row]), i));  // sums with zeros are exact
  }
}

TEST(LmHead, GivesTheLogitsOfThisRanksTokens) {
  Communicator& comm = test::world();
  const SyntheticWeights source(DType::f32, 6);
  const MatrixShape shape{41, 24};
  WeightLoader loader(source, {comm.rank(), comm.size()}, WeightType::f32, {});
  const LmHead head(std::make_shared<const VocabShard>(loader, "head", shape.rows, shape.columns));
  Random random(7);
  const RandomTensor x(random, 3, 24);
  Workspace workspace(10000);
  const TensorView<float> logits = head(x.view(), workspace);
  EXPECT_CLOSE(logits, columns_of(unsharded(source, "head", shape, Matrix(x.view()), false), head.tokens()),
               kTolerance);
}

}  // namespace
}  // namespace tp
