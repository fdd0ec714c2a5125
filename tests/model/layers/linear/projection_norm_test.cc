#include "model/layers/linear/projection_norm.h"

#include "model/kernels/projection_norm.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "parallel/shard/shard.h"
#include "tests/model/kernels/expect_close.h"
#include "tests/model/weights/read_tensor.h"
#include "tests/mpi_test.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"
#include "tp/mpi.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

constexpr std::size_t kHeadDim = 6;
constexpr std::size_t kTokens = 5;

AttentionSpec spec_of(std::size_t heads, std::size_t kv_heads) {
  AttentionSpec spec;
  spec.num_attention_heads = heads;
  spec.num_key_value_heads = kv_heads;
  spec.head_dim = kHeadDim;
  spec.query_key_norm = NormSpec{.eps = 1e-3F};
  spec.norms_whole_projections = true;
  return spec;
}

BlockNames names() {
  BlockNames names;
  names.q_norm = "q_norm";
  names.k_norm = "k_norm";
  return names;
}

std::vector<double> gain_of(const WeightSource& source, const std::string& name, std::size_t size) {
  const std::vector<float> gain = test::read_whole(source, name, {1, size});
  return {gain.begin(), gain.end()};
}

std::vector<float> columns_of(TensorView<const float> x, Range heads) {
  std::vector<float> values;
  for (std::size_t token = 0; token < x.rows(); ++token)
    values.insert(values.end(), x.row(token) + heads.begin * kHeadDim, x.row(token) + heads.end * kHeadDim);
  return values;
}

// This rank's part of the normed query and key.
struct Normed {
  std::vector<float> query;
  std::vector<float> key;
  HeadShard shard;
};

Normed norm(Communicator& comm, const WeightSource& source, const AttentionSpec& spec,
            TensorView<const float> query, TensorView<const float> key) {
  const TpRank tp{comm.rank(), comm.size()};
  const HeadShard shard = shard_heads(spec.num_attention_heads, spec.num_key_value_heads, tp);
  WeightLoader loader(source, tp, WeightType::f32, {});
  const ProjectionNorm norm(loader, spec, names(), shard);
  Normed own{columns_of(query, shard.query_heads), columns_of(key, shard.kv_heads), shard};
  Workspace workspace(1000);
  const Batch batch;
  const StepContext step{.batch = batch, .workspace = workspace, .comm = &comm};
  norm(TensorView<float>(own.query.data(), kTokens, shard.local_heads() * kHeadDim),
       TensorView<float>(own.key.data(), kTokens, shard.local_kv_heads() * kHeadDim), step);
  return own;
}

// KV heads that divide evenly among the ranks, others, and heads that several ranks hold.
TEST(ProjectionNorm, MatchesTheUnshardedProjections) {
  Communicator& comm = test::world();
  const SyntheticWeights source(DType::f32, 5);
  for (const auto& [heads, kv_heads] : {std::pair<std::size_t, std::size_t>{4, 4}, {8, 2}, {6, 3}, {4, 1}}) {
    const AttentionSpec spec = spec_of(heads, kv_heads);
    Random random(heads);
    const RandomTensor query(random, kTokens, heads * kHeadDim);
    const RandomTensor key(random, kTokens, kv_heads * kHeadDim);
    const Normed own = norm(comm, source, spec, query.view(), key.view());
    const auto expected = [&](TensorView<const float> x, const std::string& name, Range range) {
      const Matrix whole =
          reference::rms_norm(Matrix(x), gain_of(source, name + ".weight", x.columns()), 1e-3F);
      Matrix part(kTokens, range.size() * kHeadDim);
      for (std::size_t r = 0; r < part.rows; ++r) {
        for (std::size_t c = 0; c < part.columns; ++c) part(r, c) = whole(r, range.begin * kHeadDim + c);
      }
      return part;
    };
    // Float32 noise, and squares rounded to 2^-22 with means of about 1/3.
    EXPECT_CLOSE(TensorView<const float>(own.query.data(), kTokens, own.shard.local_heads() * kHeadDim),
                 expected(query.view(), "q_norm", own.shard.query_heads), 5e-6);
    EXPECT_CLOSE(TensorView<const float>(own.key.data(), kTokens, own.shard.local_kv_heads() * kHeadDim),
                 expected(key.view(), "k_norm", own.shard.kv_heads), 5e-6);
  }
}

TEST(ProjectionNorm, HasTheSameBitsOnAnyNumberOfRanks) {
  Communicator& comm = test::world();
  Communicator self(MPI_COMM_SELF);
  const SyntheticWeights source(DType::f32, 6);
  const AttentionSpec spec = spec_of(8, 2);
  Random random(11);
  const RandomTensor query(random, kTokens, 8 * kHeadDim);
  const RandomTensor key(random, kTokens, 2 * kHeadDim);
  const Normed own = norm(comm, source, spec, query.view(), key.view());
  const Normed whole = norm(self, source, spec, query.view(), key.view());
  EXPECT_EQ(own.query, columns_of({whole.query.data(), kTokens, 8 * kHeadDim}, own.shard.query_heads));
  EXPECT_EQ(own.key, columns_of({whole.key.data(), kTokens, 2 * kHeadDim}, own.shard.kv_heads));
}

TEST(ProjectionNorm, IsOneSmallAllReduce) {
  Communicator& comm = test::world();
  const SyntheticWeights source(DType::f32, 6);
  const std::vector<float> values(kTokens * 8 * kHeadDim, 1.0F);
  const auto before = comm.stats().all_reduce;
  norm(comm, source, spec_of(8, 2), {values.data(), kTokens, 8 * kHeadDim},
       {values.data(), kTokens, 2 * kHeadDim});
  EXPECT_EQ(comm.stats().all_reduce.calls - before.calls, 1U);
  EXPECT_EQ(comm.stats().all_reduce.bytes - before.bytes, kTokens * 2 * sizeof(double));
}

TEST(ProjectionNorm, CountsSquaresThatAreTooLargeForAnExactSum) {
  Communicator& comm = test::world();
  const SyntheticWeights source(DType::f32, 6);
  std::vector<float> values(kTokens * 8 * kHeadDim, 1000.0F);
  const std::uint64_t before = comm.stats().inexact_sums;
  const auto run = [&] {
    norm(comm, source, spec_of(8, 2), {values.data(), kTokens, 8 * kHeadDim},
         {values.data(), kTokens, 2 * kHeadDim});
    return comm.stats().inexact_sums - before;
  };
  EXPECT_EQ(run(), 0U);  // 48 million
  std::ranges::fill(values, 6000.0F);
  EXPECT_EQ(run(), 1U);  // 1.7 thousand million
}

TEST(SumSquares, RoundsEveryHeadsSumToTheGrid) {
  const std::vector<float> x = {1.0F, 0.001F, 3.0F, 0.0F, 0.0001F, 0.0F};
  std::vector<double> sum = {7.0};
  kernels::sum_squares({x.data(), 1, 6}, 2, {sum.data(), 1, 1});
  const double step = 1.0 / 4194304;
  // 1.000001 and 0.00000001 are 4.19 and 0.04 steps above whole numbers.
  EXPECT_EQ(sum[0], 10.0 + 4 * step);
  kernels::sum_squares({x.data(), 1, 0, 6}, 2, {sum.data(), 1, 1});
  EXPECT_EQ(sum[0], 0.0);  // sum of a rank that owns no head
}

}  // namespace
}  // namespace tp
