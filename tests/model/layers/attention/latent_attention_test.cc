#include "model/layers/attention/latent_attention.h"

#include "model/memory/kv_cache.h"
#include "model/weights/synthetic/synthetic_weights.h"
#include "parallel/exchange/collectives.h"
#include "tests/model/kernels/expect_close.h"
#include "tests/mpi_test.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"
#include "tests/reference/stored_weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <omp.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

constexpr double kTheta = 100.0;

RopeSpec rope_of(const LatentAttentionSpec& spec) {
  return {.theta = kTheta, .scaling = {}, .rotary_dim = spec.qk_rope_head_dim};
}

BlockNames names_of_latent_attention() {
  BlockNames names;
  names.latent_attention = {
      "q", "q_a", "q_a_norm", "q_b", "kv_a", "kv_a_norm", "kv_b", "o",
  };
  return names;
}

Matrix stored(const WeightSource& source, const std::string& name, std::size_t rows, std::size_t columns) {
  return reference::stored(source, name + ".weight", {rows, columns});
}

Matrix columns_of(const Matrix& x, std::size_t begin, std::size_t count) {
  Matrix part(x.rows, count);
  for (std::size_t r = 0; r < x.rows; ++r) {
    for (std::size_t c = 0; c < count; ++c) part(r, c) = x(r, begin + c);
  }
  return part;
}

// Rotates the pairs (2 i, 2 i + 1) of the columns [begin, begin + size), or its halves, at positions 0, 1,
// ...
void rotate(Matrix& x, std::size_t begin, std::size_t size, bool pairs) {
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t i = 0; i < size / 2; ++i) {
      const double angle = static_cast<double>(t) *
                           std::pow(kTheta, -2.0 * static_cast<double>(i) / static_cast<double>(size));
      double& a = x(t, begin + (pairs ? 2 * i : i));
      double& b = x(t, begin + (pairs ? 2 * i + 1 : i + size / 2));
      const double first = a;
      a = first * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + first * std::sin(angle);
    }
  }
}

// Expands the keys and values of every head, as the paper defines attention.
Matrix naive(const LatentAttentionSpec& spec, const WeightSource& source, const Matrix& x) {
  const std::size_t heads = spec.num_attention_heads;
  const std::size_t nope = spec.qk_nope_head_dim;
  const std::size_t rope = spec.qk_rope_head_dim;
  const auto norm = [&](const Matrix& y, const std::string& name) {
    std::vector<double> gain = stored(source, name, 1, y.columns).values;
    return rms_norm(y, gain, 1e-6);
  };
  const std::size_t query_size = heads * (nope + rope);
  Matrix query;
  if (spec.q_lora_rank) {
    const Matrix latent = norm(matmul(x, stored(source, "q_a", *spec.q_lora_rank, x.columns)), "q_a_norm");
    query = matmul(latent, stored(source, "q_b", query_size, *spec.q_lora_rank));
  } else {
    query = matmul(x, stored(source, "q", query_size, x.columns));
  }
  Matrix down = matmul(x, stored(source, "kv_a", spec.kv_lora_rank + rope, x.columns));
  rotate(down, spec.kv_lora_rank, rope, spec.interleaved_rope);
  const Matrix latent = norm(columns_of(down, 0, spec.kv_lora_rank), "kv_a_norm");
  const Matrix up =
      matmul(latent, stored(source, "kv_b", heads * (nope + spec.v_head_dim), spec.kv_lora_rank));
  Matrix values(x.rows, heads * spec.v_head_dim);
  for (std::size_t head = 0; head < heads; ++head) {
    rotate(query, head * (nope + rope) + nope, rope, spec.interleaved_rope);
    Matrix key(x.rows, nope + rope);
    for (std::size_t t = 0; t < x.rows; ++t) {
      const std::size_t first = head * (nope + spec.v_head_dim);
      for (std::size_t i = 0; i < nope; ++i) key(t, i) = up(t, first + i);
      for (std::size_t i = 0; i < rope; ++i) key(t, nope + i) = down(t, spec.kv_lora_rank + i);
    }
    const Matrix head_values = columns_of(up, head * (nope + spec.v_head_dim) + nope, spec.v_head_dim);
    const std::vector<std::size_t> one_head = {0};
    const Matrix attended =
        reference::attention(columns_of(query, head * (nope + rope), nope + rope), key, head_values, one_head,
                             nope + rope, {}, static_cast<double>(spec.scale));
    for (std::size_t t = 0; t < x.rows; ++t) {
      for (std::size_t i = 0; i < spec.v_head_dim; ++i)
        values(t, head * spec.v_head_dim + i) = attended(t, i);
    }
  }
  return matmul(values, stored(source, "o", x.columns, heads * spec.v_head_dim));
}

LatentAttentionSpec random_spec(Random& random, std::size_t ranks) {
  LatentAttentionSpec spec;
  spec.num_attention_heads = random.integer(ranks, ranks + 3);
  if (random.coin()) spec.q_lora_rank = random.integer(1, 40);
  spec.kv_lora_rank = random.integer(1, 50);
  spec.qk_nope_head_dim = random.integer(1, 20);
  spec.qk_rope_head_dim = 2 * random.integer(1, 8);
  spec.v_head_dim = random.integer(1, 20);
  spec.scale = 0.3F;
  spec.rope = rope_of(spec);
  spec.interleaved_rope = random.coin();
  return spec;
}

// Runs the tokens of x as one sequence, in chunks. Returns the sum over ranks.
std::vector<float> run(Communicator& comm, const LatentAttention& attention, const LatentAttentionSpec& spec,
                       TensorView<const float> x, std::size_t chunk, KvType type, std::size_t block_size) {
  const std::size_t blocks = (x.rows() + block_size - 1) / block_size;
  const KvCache cache({attention.kv_layout(type, block_size)}, blocks);
  std::vector<std::int32_t> table;
  for (std::size_t block = blocks; block > 0; --block) table.push_back(static_cast<std::int32_t>(block - 1));
  Workspace workspace(std::size_t{1} << 22);
  const Rope rope(spec.rope.value(), x.rows());
  std::vector<float> out;
  for (std::size_t begin = 0; begin < x.rows(); begin += chunk) {
    const Workspace::Frame frame(workspace);
    const std::size_t tokens = std::min(chunk, x.rows() - begin);
    Batch batch;
    for (std::size_t i = 0; i < tokens; ++i) batch.positions.push_back(begin + i);
    batch.spans[0].push_back({0, tokens, begin, table});
    const RopeAngles angles = rope(batch.positions, workspace);
    const StepContext step{batch, workspace, {&angles, 1}};
    const TensorView<float> y = all_reduce(comm, attention(x.rows_from(begin, tokens), step, cache.layer(0)));
    for (std::size_t t = 0; t < tokens; ++t) out.insert(out.end(), y.row(t), y.row(t) + y.columns());
  }
  return out;
}

TEST(LatentAttention, SumOverRanksEqualsAttentionWithKeysAndValuesWrittenOut) {
  Communicator& comm = test::world();
  const TpRank tp{comm.rank(), comm.size()};
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const LatentAttentionSpec spec = random_spec(random, comm.size());
    const std::size_t hidden_size = random.integer(1, 60);
    const std::size_t tokens = random.integer(1, 40);
    SCOPED_TRACE(fmt::format("seed {}: {} tokens, {} heads of {} + {}, {}; latents of {}, hidden {}", seed,
                             tokens, spec.num_attention_heads, spec.qk_nope_head_dim, spec.qk_rope_head_dim,
                             spec.v_head_dim, spec.kv_lora_rank, hidden_size));
    const SyntheticWeights source(DType::f32, seed);
    WeightLoader loader(source, tp, WeightType::f32, {});
    const LatentAttention attention(loader, spec, hidden_size, names_of_latent_attention());
    EXPECT_EQ(source.bytes_read(), loader.loaded().elements * sizeof(float));

    const RandomTensor x(random, tokens, hidden_size);
    std::vector<float> y =
        run(comm, attention, spec, x.view(), random.integer(1, tokens), KvType::f32, random.integer(1, 20));
    // Latents are normalized; all sums are near 1, and float32 keeps them to 1e-6 a step.
    EXPECT_CLOSE(TensorView<const float>(y.data(), tokens, hidden_size),
                 naive(spec, source, Matrix(x.view())), 2e-5);
  }
}

TEST(LatentAttention, HoldsWeightsAndLatentsInEveryType) {
  Communicator& comm = test::world();
  const TpRank tp{comm.rank(), comm.size()};
  LatentAttentionSpec spec{.num_attention_heads = 8, .q_lora_rank = 96, .kv_lora_rank = 64};
  spec.qk_nope_head_dim = 32;
  spec.qk_rope_head_dim = 16;
  spec.v_head_dim = 32;
  spec.scale = 0.1F;
  spec.rope = rope_of(spec);
  const SyntheticWeights source(DType::f32, 9);
  Random random(9);
  const RandomTensor x(random, 30, 128);
  const Matrix expected = naive(spec, source, Matrix(x.view()));
  // bf16 keeps 8 bits, and sums over three products in a row lose some. int4 keeps 4.
  for (const auto& [weights, cache, tolerance] : {std::tuple{WeightType::f32, KvType::bf16, 0.01},
                                                  {WeightType::f32, KvType::int8, 0.02},
                                                  {WeightType::bf16, KvType::bf16, 0.03},
                                                  {WeightType::int8, KvType::int8, 0.06},
                                                  {WeightType::int4, KvType::bf16, 0.5}}) {
    WeightLoader loader(source, tp, weights, {});
    const LatentAttention attention(loader, spec, 128, names_of_latent_attention());
    std::vector<float> y = run(comm, attention, spec, x.view(), 11, cache, 16);
    EXPECT_CLOSE(TensorView<const float>(y.data(), 30, 128), expected, tolerance)
        << name_of(weights) << " weights, " << name_of(cache) << " cache";
  }
}

// The cached bytes of a token depend neither on the number of ranks nor on the number of heads.
TEST(LatentAttention, CachesTheLatentAndTheRotatedKeyOnEveryRank) {
  LatentAttentionSpec spec{.num_attention_heads = 128, .q_lora_rank = {}, .kv_lora_rank = 512};
  spec.qk_rope_head_dim = 64;
  spec.qk_nope_head_dim = spec.v_head_dim = 128;
  const SyntheticWeights source(DType::bf16);
  for (const std::size_t rank : {0U, 15U}) {
    WeightLoader loader(source, {rank, 16}, {}, {}, WeightLoader::Mode::shapes);
    const LatentAttention attention(loader, spec, 7168, names_of_latent_attention());
    EXPECT_EQ(attention.kv_layout(KvType::f32, 32).block_bytes(), 32 * 576 * sizeof(float));
    EXPECT_EQ(attention.kv_layout(KvType::bf16, 32).block_bytes(), 32 * 576 * std::size_t{2});
  }
}

}  // namespace
}  // namespace tp
