// RWKV-7's time mix and its MLP against their formulas in double precision, on any number of ranks.
#include "model/layers/attention/rwkv7.h"

#include "model/layers/feed_forward/mlp.h"
#include "model/memory/state_cache.h"
#include "parallel/exchange/collectives.h"
#include "tests/model/kernels/expect_close.h"
#include "tests/model/layers/attention/mixer_run.h"
#include "tests/model/weights/memory_weights.h"
#include "tests/mpi_test.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"
#include "tp/mpi.h"

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

constexpr std::size_t kHeadDim = 8;
constexpr std::size_t kTokens = 13;
constexpr std::size_t kInner = 96;
constexpr float kEps = 1e-3F;
constexpr std::size_t kSteps[] = {4, 1, 1, 7};
constexpr std::size_t kWhole[] = {kTokens};

Rwkv7Spec mix_of(std::size_t heads, bool is_first) {
  return {.num_heads = heads,
          .head_dim = kHeadDim,
          .decay_rank = 3,
          .strength_rank = 4,
          .value_rank = 2,
          .gate_rank = 5,
          .is_first = is_first,
          .norm = {.kind = NormSpec::Kind::layer, .eps = kEps}};
}

BlockNames mix_names() {
  BlockNames names;
  names.rwkv7 = usual_names(kRwkv7Tensors, "attn.");
  names.rwkv7.channel_mix = "ffn.x_k";
  names.up_proj = "ffn.key";
  names.down_proj = "ffn.value";
  return names;
}

// A layer's weights by name, also as the reference reads them.
struct MixWeights {
  // `mixes_in_one`: the checkpoint stores the previous token's shares in one matrix.
  MixWeights(const Rwkv7Spec& spec, bool mixes_in_one = false) : hidden(spec.num_heads * spec.head_dim) {
    Random random(hidden + (spec.is_first ? 1 : 0));
    const auto add = [&](const std::string& name, std::size_t rows, std::size_t columns, float scale) {
      all[name] = test::add_random(source, random, name, {rows, columns}, scale);
    };
    std::vector<float> mixes;
    for (const std::string input : {"r", "w", "k", "v", "a", "g"}) {
      add("attn.x_" + input, 1, hidden, 1.0F);
      mixes.insert(mixes.end(), all["attn.x_" + input].begin(), all["attn.x_" + input].end());
    }
    if (mixes_in_one) source.add("attn.x_x", {6, hidden}, mixes);
    for (const std::string part : {"r", "k", "v", "o"})
      add("attn." + part + "_proj.weight", hidden, hidden, 0.4F);
    const auto add_pair = [&](const std::string& name, std::size_t rank, bool bias) {
      add("attn." + name + "_lora.lora.0.weight", rank, hidden, 0.4F);
      add("attn." + name + "_lora.lora.2.weight", hidden, rank, 1.0F);
      if (bias) add("attn." + name + "_lora.lora.2.bias", 1, hidden, 1.0F);
    };
    add_pair("w", spec.decay_rank, true);
    add_pair("a", spec.strength_rank, true);
    if (!spec.is_first) add_pair("v", spec.value_rank, true);
    add_pair("g", spec.gate_rank, false);
    for (const char* const name : {"attn.k_k", "attn.k_a", "attn.g_norm.weight", "attn.g_norm.bias"})
      add(name, 1, hidden, 1.0F);
    add("attn.r_k", spec.num_heads, spec.head_dim, 1.0F);
    add("ffn.x_k", 1, hidden, 1.0F);
    add("ffn.key.weight", kInner, hidden, 0.4F);
    add("ffn.value.weight", hidden, kInner, 0.3F);
  }

  std::size_t hidden;
  test::MemoryWeights source;
  std::map<std::string, std::vector<float>> all;
};

// y = x . weight^T (+ bias)
Matrix product(const MixWeights& weights, const Matrix& x, const std::string& layer, bool bias = false) {
  Matrix y = test::product(x, weights.all.at(layer + ".weight"), x.columns);
  for (std::size_t i = 0; bias && i < y.values.size(); ++i)
    y.values[i] += weights.all.at(layer + ".bias")[i % y.columns];
  return y;
}

Matrix shifted(const MixWeights& weights, const Matrix& x, const std::string& share) {
  Matrix mixed = x;
  for (std::size_t row = 0; row < x.rows; ++row) {
    for (std::size_t i = 0; i < x.columns; ++i)
      mixed(row, i) += ((row == 0 ? 0.0 : x(row - 1, i)) - x(row, i)) * weights.all.at(share)[i];
  }
  return mixed;
}

template <class Function>
Matrix each(Matrix x, const Function& function) {
  for (std::size_t row = 0; row < x.rows; ++row) {
    for (std::size_t i = 0; i < x.columns; ++i) x(row, i) = function(x(row, i));
  }
  return x;
}

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// A sequence's projections, [tokens, hidden].
struct Projections {
  Matrix receptance;
  Matrix key;
  Matrix value;
  Matrix decay;
  Matrix strength;
  Matrix gate;
};

// `first`: the first layer's values, which the first layer writes.
Projections projections(const Rwkv7Spec& spec, const MixWeights& weights, const Matrix& x, Matrix& first) {
  const auto input = [&](const std::string& name) { return shifted(weights, x, "attn.x_" + name); };
  const auto low_rank = [&](const std::string& name, const auto& function) {
    const std::string layer = "attn." + name + "_lora.lora.";
    return product(weights, each(product(weights, input(name), layer + "0"), function), layer + "2",
                   name != "g");
  };
  const auto same = [](double value) { return value; };
  Projections all{.receptance = product(weights, input("r"), "attn.r_proj"),
                  .key = product(weights, input("k"), "attn.k_proj"),
                  .value = product(weights, input("v"), "attn.v_proj"),
                  .decay = low_rank("w", [](double sum) { return std::tanh(sum); }),
                  .strength = each(low_rank("a", same), logistic),
                  .gate = low_rank("g", logistic)};
  if (spec.is_first) {
    first = all.value;
    return all;
  }
  const Matrix share = low_rank("v", same);
  for (std::size_t row = 0; row < x.rows; ++row) {
    for (std::size_t i = 0; i < x.columns; ++i)
      all.value(row, i) += logistic(share(row, i)) * (first(row, i) - all.value(row, i));
  }
  return all;
}

// One token through a head whose channels begin at `at`. state: [values, keys], as in the paper
std::vector<double> naive_head(const MixWeights& weights, const Projections& all, std::size_t row,
                               std::size_t at, Matrix& state) {
  std::vector<double> kk, write;
  double squares = 0.0;
  double bonus = 0.0;
  for (std::size_t i = at; i < at + kHeadDim; ++i) {
    kk.push_back(all.key(row, i) * weights.all.at("attn.k_k")[i]);
    squares += kk.back() * kk.back();
    write.push_back(all.key(row, i) * (1.0 + (all.strength(row, i) - 1.0) * weights.all.at("attn.k_a")[i]));
    bonus += all.receptance(row, i) * write.back() * weights.all.at("attn.r_k")[i];
  }
  for (double& element : kk) element /= std::sqrt(squares);
  std::vector<double> out(kHeadDim, 0.0);
  for (std::size_t v = 0; v < kHeadDim; ++v) {
    double read = 0.0;
    for (std::size_t i = 0; i < kHeadDim; ++i) read += state(v, i) * kk[i];
    for (std::size_t i = 0; i < kHeadDim; ++i) {
      const double decay = std::exp(-std::exp(-0.5) * logistic(all.decay(row, at + i)));
      state(v, i) =
          state(v, i) * decay - read * kk[i] * all.strength(row, at + i) + all.value(row, at + v) * write[i];
      out[v] += state(v, i) * all.receptance(row, at + i);
    }
  }
  double mean = 0.0;
  double variance = 0.0;
  for (const double element : out) mean += element / kHeadDim;
  for (const double element : out) variance += (element - mean) * (element - mean) / kHeadDim;
  for (std::size_t v = 0; v < kHeadDim; ++v)
    out[v] = (out[v] - mean) / std::sqrt(variance + kEps) * weights.all.at("attn.g_norm.weight")[at + v] +
             weights.all.at("attn.g_norm.bias")[at + v] + bonus * all.value(row, at + v);
  return out;
}

// One sequence's whole output. `first`: see projections().
Matrix naive_mix(const Rwkv7Spec& spec, const MixWeights& weights, const Matrix& x, Matrix& first) {
  const Projections all = projections(spec, weights, x, first);
  Matrix out(x.rows, x.columns);
  for (std::size_t at = 0; at < x.columns; at += kHeadDim) {
    Matrix state(kHeadDim, kHeadDim);
    for (std::size_t row = 0; row < x.rows; ++row) {
      const std::vector<double> head = naive_head(weights, all, row, at, state);
      for (std::size_t v = 0; v < kHeadDim; ++v) out(row, at + v) = head[v] * all.gate(row, at + v);
    }
  }
  return product(weights, out, "attn.o_proj");
}

WeightLoader loader_of(Communicator& comm, const MixWeights& weights, std::size_t heads) {
  return {weights.source, {comm.rank(), comm.size()}, WeightType::f32, {}, WeightLoader::Mode::weights,
          heads};
}

// Outputs of a sequence whose tokens come in steps of these sizes: the first layer's, and the second layer's,
// which reads the first one's values. Collective over `comm`.
struct Outputs {
  std::vector<float> first;
  std::vector<float> second;

  bool operator==(const Outputs&) const = default;
};
Outputs run_mixes(Communicator& comm, std::size_t heads, TensorView<const float> x,
                  std::span<const std::size_t> steps, bool mixes_in_one = false) {
  const MixWeights weights_of_first(mix_of(heads, true), mixes_in_one);
  const MixWeights weights_of_second(mix_of(heads, false), mixes_in_one);
  WeightLoader loader_of_first = loader_of(comm, weights_of_first, heads);
  WeightLoader loader_of_second = loader_of(comm, weights_of_second, heads);
  const Rwkv7 first(loader_of_first, mix_of(heads, true), x.columns(), mix_names());
  const Rwkv7 second(loader_of_second, mix_of(heads, false), x.columns(), mix_names());
  const std::vector<std::size_t> floats = {first.state_floats(), second.state_floats()};
  const StateCache states(floats, 1);
  const std::size_t local =
      shard_heads_of_some(heads, heads, {comm.rank(), comm.size()}).local_heads() * kHeadDim;
  Outputs all{std::vector<float>(x.size()), std::vector<float>(x.size())};
  std::size_t begin = 0;
  for (const std::size_t tokens : steps) {
    Workspace workspace(1 << 20);
    const Batch batch = test::batch_of_one(tokens, begin);
    StepContext step{.batch = batch,
                     .workspace = workspace,
                     .states = states.layer(0),
                     .comm = &comm,
                     .first_values = workspace.take(tokens, local)};
    const auto run = [&](const Rwkv7& mix, std::vector<float>& out) {
      all_reduce(comm, mix(x.rows_from(begin, tokens), step),
                 TensorView<float>(out.data() + begin * x.columns(), tokens, x.columns()));
    };
    run(first, all.first);
    step.states = states.layer(1);
    run(second, all.second);
    begin += tokens;
  }
  return all;
}

TEST(Rwkv7Mix, EqualsTheFormulasOnAnyNumberOfRanks) {
  for (const std::size_t heads : {2, 3, 4}) {
    for (const bool mixes_in_one : {false, true}) {
      SCOPED_TRACE(heads);
      Random random(3);
      const std::size_t hidden = heads * kHeadDim;
      const RandomTensor x(random, kTokens, hidden);
      const Outputs found = run_mixes(test::world(), heads, x.view(), kSteps, mixes_in_one);
      const Matrix input(x.view());
      Matrix first(0, 0);
      const auto view = [&](const std::vector<float>& all) {
        return TensorView<const float>(all.data(), kTokens, hidden);
      };
      const Rwkv7Spec specs[] = {mix_of(heads, true), mix_of(heads, false)};
      EXPECT_CLOSE(view(found.first), naive_mix(specs[0], MixWeights(specs[0]), input, first), 5e-5);
      EXPECT_CLOSE(view(found.second), naive_mix(specs[1], MixWeights(specs[1]), input, first), 5e-5);
    }
  }
}

TEST(Rwkv7Mix, HasTheSameBitsOnAnyNumberOfRanksAndInAnySteps) {
  Communicator self(MPI_COMM_SELF);
  for (const std::size_t heads : {2, 3, 4}) {
    Random random(4);
    const RandomTensor x(random, kTokens, heads * kHeadDim);
    EXPECT_EQ(run_mixes(test::world(), heads, x.view(), kSteps), run_mixes(self, heads, x.view(), kWhole))
        << heads;
  }
}

TEST(Rwkv7Mix, NeedsTheAllReduceOfItsOutputOnly) {
  Communicator& comm = test::world();
  Random random(5);
  const RandomTensor x(random, kTokens, 4 * kHeadDim);
  const auto before = comm.stats().all_reduce;
  run_mixes(comm, 4, x.view(), kWhole);
  EXPECT_EQ(comm.stats().all_reduce.calls - before.calls, 2U) << "of two layers";
}

// Every rank has part 0.
TEST(Rwkv7Mix, HasAStatePerHeadThatDoesNotDependOnTheRanks) {
  const Rwkv7Spec spec = mix_of(3, true);
  const MixWeights weights(spec);
  std::vector<std::size_t> heads;
  for (std::size_t rank = 0; rank < 5; ++rank) {
    WeightLoader loader(weights.source, {rank, 5}, WeightType::f32, {});
    for (const StatePart& part : Rwkv7(loader, spec, weights.hidden, mix_names()).state_parts()) {
      std::size_t floats = 0;
      for (const StatePart::Rows& rows : part.rows) floats += rows.count * rows.floats;
      EXPECT_EQ(floats, part.index == 0 ? weights.hidden : kHeadDim * 16) << part.index;
      if (part.index != 0) heads.push_back(part.index);
    }
  }
  EXPECT_EQ(heads, (std::vector<std::size_t>{1, 2, 3}));
}

TEST(Rwkv7Mlp, ReadsTheTokenBefore) {
  Communicator& comm = test::world();
  const MixWeights weights(mix_of(3, true));
  WeightLoader loader = loader_of(comm, weights, 3);
  const PlainMlp mlp(
      loader, {.intermediate_size = kInner, .activation = Activation::relu_squared, .token_shift = true},
      weights.hidden, mix_names());
  Random random(6);
  const RandomTensor x(random, kTokens, weights.hidden);
  const std::vector<float> found =
      test::run_layer(comm, mlp, mlp.token_shift()->state_floats(), x.view(), kSteps);
  const Matrix inner = each(product(weights, shifted(weights, Matrix(x.view()), "ffn.x_k"), "ffn.key"),
                            [](double sum) { return sum > 0.0 ? sum * sum : 0.0; });
  EXPECT_CLOSE(TensorView<const float>(found.data(), kTokens, weights.hidden),
               product(weights, inner, "ffn.value"), 2e-5);
}

}  // namespace
}  // namespace tp
