#include "model/layers/feed_forward/mixture_of_experts.h"

#include "model/weights/synthetic/synthetic_weights.h"
#include "parallel/exchange/collectives.h"
#include "tests/model/kernels/expect_close.h"
#include "tests/mpi_test.h"
#include "tests/reference/experts.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"
#include "tests/reference/stored_weights.h"

#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <omp.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;
using reference::stored;

// Results are near 1, as sums of some 100 products. float32 keeps them to 1e-6.
constexpr double kTolerance = 1e-5;

BlockNames names_of_experts() {
  BlockNames names;
  names.experts = {.router = "router",
                   .correction_bias = "correction_bias",
                   .latent_down = "latent_down",
                   .latent_up = "latent_up",
                   .shared_expert = {"shared.gate", "shared.up", "shared.down"},
                   .shared_expert_gate = "shared_gate",
                   .experts = "experts.",
                   .parts = {"gate", "up", "down"}};
  return names;
}

reference::ExpertWeights weights_of_expert(const WeightSource& source, const GatedMlpNames& names,
                                           std::size_t size, std::size_t hidden_size) {
  return {stored(source, names.gate_proj + ".weight", {size, hidden_size}),
          stored(source, names.up_proj + ".weight", {size, hidden_size}),
          stored(source, names.down_proj + ".weight", {hidden_size, size})};
}

void add_biases(const WeightSource& source, const GatedMlpNames& names, reference::ExpertWeights& expert) {
  expert.gate_bias = stored(source, names.gate_proj + ".bias", {1, expert.gate.rows}).values;
  expert.up_bias = stored(source, names.up_proj + ".bias", {1, expert.up.rows}).values;
  expert.down_bias = stored(source, names.down_proj + ".bias", {1, expert.down.rows}).values;
}

Matrix row_of(const Matrix& x, std::size_t row) {
  Matrix one(1, x.columns);
  for (std::size_t i = 0; i < x.columns; ++i) one(0, i) = x(row, i);
  return one;
}

// Token by token, expert by expert.
Matrix naive(const MixtureOfExpertsSpec& spec, const WeightSource& source, const Matrix& x,
             std::vector<std::size_t>* uses = nullptr) {
  const ExpertNames names = names_of_experts().experts;
  const std::size_t experts = spec.router.num_experts;
  Matrix logits = matmul(x, stored(source, "router.weight", {experts, x.columns}));
  if (spec.router.bias) add_bias(stored(source, "router.bias", {1, experts}).values, logits);
  const std::vector<double> bias = spec.router.correction_bias
                                       ? stored(source, "correction_bias", {1, experts}).values
                                       : std::vector<double>{};
  Matrix y(x.rows, x.columns);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const Matrix token = row_of(x, t);
    const auto add = [&](const Matrix& in, const GatedMlpNames& expert, std::size_t size, double weight,
                         Matrix& sum, bool is_shared = false) {
      reference::ExpertWeights weights = weights_of_expert(source, expert, size, in.columns);
      if (spec.bias && !is_shared) add_biases(source, expert, weights);
      Matrix read = in;
      const bool weigh_input = spec.weigh_input && !is_shared;
      if (weigh_input)
        for (double& value : read.values) value *= weight;
      const Matrix result = reference::expert(weights, read, spec.activation);
      for (std::size_t i = 0; i < in.columns; ++i) sum(0, i) += (weigh_input ? 1.0 : weight) * result(0, i);
    };
    const std::size_t latent = spec.latent_size;
    const Matrix in =
        latent != 0 ? matmul(token, stored(source, "latent_down.weight", {latent, x.columns})) : token;
    Matrix sum(1, in.columns);
    for (const auto& [expert, weight] :
         reference::choose_experts(spec.router, row_of(logits, t).values, bias)) {
      add(in, names.expert(expert), spec.intermediate_size, weight, sum);
      if (uses != nullptr) ++uses->at(expert);
    }
    if (latent != 0) sum = matmul(sum, stored(source, "latent_up.weight", {x.columns, latent}));
    double weight = 1.0;
    if (spec.shared_expert_gate) {
      weight =
          1.0 / (1.0 + std::exp(-matmul(token, stored(source, "shared_gate.weight", {1, x.columns}))(0, 0)));
    }
    if (spec.shared_intermediate_size != 0)
      add(token, names.shared_expert, spec.shared_intermediate_size, weight, sum, true);
    for (std::size_t i = 0; i < x.columns; ++i) y(t, i) = sum(0, i);
  }
  return y;
}

MixtureOfExpertsSpec random_spec(Random& random) {
  MixtureOfExpertsSpec spec;
  spec.router.num_groups = random.integer(1, 3);
  const std::size_t group_size = random.integer(2, 4);
  spec.router.num_experts = spec.router.num_groups * group_size;
  spec.router.groups_per_tok = random.integer(1, spec.router.num_groups);
  spec.router.num_experts_per_tok = random.integer(1, spec.router.groups_per_tok * group_size);
  spec.router.scoring = random.coin() ? RouterSpec::Scoring::sigmoid : RouterSpec::Scoring::softmax;
  spec.router.correction_bias = random.coin();
  spec.router.normalize = random.coin();
  spec.router.scale = random.coin() ? 1.0F : 1.8F;
  spec.router.bias = random.coin();
  spec.bias = random.coin();
  spec.weigh_input = random.integer(0, 3) == 0;
  if (random.coin()) spec.activation = Activation::clamped_swiglu;
  spec.intermediate_size = random.integer(1, 90);
  spec.shared_intermediate_size = random.coin() ? random.integer(1, 120) : 0;
  spec.shared_expert_gate = spec.shared_intermediate_size != 0 && random.coin();
  if (random.coin()) spec.latent_size = random.integer(1, 60);
  return spec;
}

// Returns the largest workspace of a step with this many tokens, in floats.
std::size_t worst_case(const MixtureOfExperts& experts, std::size_t tokens, std::size_t hidden_size) {
  Workspace workspace = Workspace::counting();
  const PartialSum sum = experts(TensorView<const float>(nullptr, tokens, hidden_size), {{}, workspace});
  EXPECT_EQ(sum.shape().rows(), tokens);
  return workspace.peak_bytes() / sizeof(float);
}

// Covers single tokens, ranks that own no column of an expert, and experts without tokens.
TEST(MixtureOfExperts, SumOverRanksEqualsTheNaiveLoopOverTokensAndExperts) {
  Communicator& comm = test::world();
  const TpRank tp{comm.rank(), comm.size()};
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const MixtureOfExpertsSpec spec = random_spec(random);
    const std::size_t hidden_size = random.integer(1, 70);
    const std::size_t tokens = seed % 5 == 0 ? 1 : random.integer(1, 30);
    SCOPED_TRACE(fmt::format("seed {}: {} tokens, {} of {} experts of {}, shared {}", seed, tokens,
                             spec.router.num_experts_per_tok, spec.router.num_experts, spec.intermediate_size,
                             spec.shared_intermediate_size));
    const SyntheticWeights source(DType::f32, seed);
    WeightLoader loader(source, tp, WeightType::f32, {});
    const MixtureOfExperts experts(loader, spec, hidden_size, names_of_experts());
    EXPECT_EQ(source.bytes_read(), loader.loaded().elements * sizeof(float));

    const RandomTensor x(random, tokens, hidden_size);
    Workspace workspace(worst_case(experts, tokens, hidden_size));
    const TensorView<float> y =
        all_reduce(comm, experts(x.view(), {.batch = {}, .workspace = workspace, .comm = &comm}));
    EXPECT_CLOSE(y, naive(spec, source, Matrix(x.view())), kTolerance);
  }
}

TEST(MixtureOfExperts, LeavesOutExpertsThatNoTokenTakes) {
  Communicator& comm = test::world();
  MixtureOfExpertsSpec spec;
  spec.router.num_experts = 16;
  spec.router.num_experts_per_tok = 2;
  spec.intermediate_size = 20;
  const SyntheticWeights source(DType::f32, 3);
  WeightLoader loader(source, {comm.rank(), comm.size()}, WeightType::f32, {});
  const MixtureOfExperts experts(loader, spec, 24, names_of_experts());
  Random random(3);
  const RandomTensor x(random, 3, 24);
  std::vector<std::size_t> uses(16);
  const Matrix expected = naive(spec, source, Matrix(x.view()), &uses);
  ASSERT_GE(std::count(uses.begin(), uses.end(), 0U), 10);
  Workspace workspace(10000);
  EXPECT_CLOSE(all_reduce(comm, experts(x.view(), {{}, workspace})), expected, kTolerance);
}

TEST(MixtureOfExperts, HoldsItsExpertsInEveryTypeAndItsRouterInFloat32) {
  Communicator& comm = test::world();
  const TpRank tp{comm.rank(), comm.size()};
  MixtureOfExpertsSpec spec;
  spec.router.num_experts = 4;
  spec.router.num_experts_per_tok = 2;
  spec.intermediate_size = 128;
  spec.shared_intermediate_size = 256;
  const SyntheticWeights source(DType::f32, 4);
  Random random(4);
  const RandomTensor x(random, 20, 64);
  const Matrix expected = naive(spec, source, Matrix(x.view()));
  // 8 bits keep 1/250 of a group's largest element, 4 bits 1/14; errors add up as a random walk.
  for (const auto& [type, tolerance] : {std::pair{WeightType::f16, 0.01},
                                        {WeightType::bf16, 0.05},
                                        {WeightType::int8, 0.1},
                                        {WeightType::int4, 0.8}}) {
    WeightLoader loader(source, tp, type, {});
    const MixtureOfExperts experts(loader, spec, 64, names_of_experts());
    Workspace workspace(worst_case(experts, 20, 64));
    EXPECT_CLOSE(all_reduce(comm, experts(x.view(), {{}, workspace})), expected, tolerance) << name_of(type);
  }
}

// Near a tie, one bit decides. So the router must give the same bits on every rank, for any number of threads
// and any other tokens in the batch.
TEST(Router, ChoosesTheSameOnRanksWithDifferentNumbersOfThreads) {
  Communicator& comm = test::world();
  constexpr std::size_t kExperts = 64;
  constexpr std::size_t kHidden = 2048;  // more work than kMinParallelWork, also of one token
  constexpr std::size_t kTokens = 21;
  RouterSpec spec{.num_experts = kExperts, .num_experts_per_tok = 4};
  const SyntheticWeights source(DType::bf16, 5);
  WeightLoader loader(source, {comm.rank(), comm.size()}, WeightType::int4, {});
  const Router router(loader, spec, kHidden, names_of_experts().experts);
  Random random(5);
  const RandomTensor x(random, kTokens, kHidden);
  Workspace workspace(kTokens * kExperts + 16);

  const auto weights_of = [&](TensorView<const float> rows) {
    const Routing routing = router(rows, {{}, workspace});
    std::vector<float> weights(rows.rows() * kExperts);
    for (std::size_t expert = 0; expert < kExperts; ++expert) {
      const ExpertTokens tokens = routing.of(expert);
      for (std::size_t i = 0; i < tokens.rows.size(); ++i)
        weights[tokens.rows[i] * kExperts + expert] = tokens.weights[i];
    }
    return weights;
  };
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  std::vector<float> alone;  // token by token on one thread
  for (std::size_t token = 0; token < kTokens; ++token) {
    const std::vector<float> row = weights_of(x.view().rows_from(token, 1));
    alone.insert(alone.end(), row.begin(), row.end());
  }
  omp_set_num_threads(static_cast<int>(comm.rank()) + 2);
  const std::vector<float> together = weights_of(x.view());
  omp_set_num_threads(threads);
  EXPECT_EQ(together, alone);

  std::vector<std::byte> bytes(together.size() * sizeof(float));
  std::memcpy(bytes.data(), together.data(), bytes.size());
  std::vector<std::byte> all(comm.is_root() ? bytes.size() * comm.size() : 0);
  gather_bytes(comm, bytes, all);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], bytes[i % bytes.size()]) << i;
}

}  // namespace
}  // namespace tp
