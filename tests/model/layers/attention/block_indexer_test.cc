// Attention to the blocks that an indexer chooses, in caches with blocks of any size.
#include "model/layers/attention/block_indexer.h"

#include "model/layers/attention/attention.h"
#include "model/memory/kv_cache.h"
#include "parallel/exchange/collectives.h"
#include "tests/model/kernels/expect_close.h"
#include "tests/model/weights/memory_weights.h"
#include "tests/mpi_test.h"
#include "tests/reference/index_keys.h"
#include "tests/reference/kernels.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Matrix;
using reference::Random;
using reference::RandomTensor;

constexpr std::size_t kHidden = 24;

BlockNames names_of_indexed_attention() {
  BlockNames names;
  names.q_proj = "q";
  names.k_proj = "k";
  names.v_proj = "v";
  names.o_proj = "o";
  names.block_indexer = {.q_proj = "index_q", .k_proj = "index_k", .q_norm = "q_gain", .k_norm = "k_gain"};
  return names;
}

// The weights of a layer, also as matrices.
class IndexedWeights {
 public:
  IndexedWeights(const AttentionSpec& spec, Random& random, bool has_equal_keys) {
    const std::size_t query = spec.num_attention_heads * spec.head_dim;
    const std::size_t key = spec.num_key_value_heads * spec.head_dim;
    const std::size_t index = spec.block_indexer->head_dim;
    add("q", query, kHidden, random);
    add("k", key, kHidden, random);
    add("v", key, kHidden, random);
    add("o", kHidden, query, random);
    add("index_q", spec.num_key_value_heads * index, kHidden, random);
    add("index_k", index, kHidden, random, has_equal_keys);
    add("q_gain", 1, index, random);
    add("k_gain", 1, index, random);
  }

  const test::MemoryWeights& source() const { return source_; }
  const Matrix& operator()(const std::string& name) const { return matrices_.at(name); }

 private:
  void add(const std::string& name, std::size_t rows, std::size_t columns, Random& random,
           bool is_zero = false) {
    const RandomTensor tensor(random, rows, columns);
    const float* const values = tensor.view().data();
    std::vector<float> copy(values, values + rows * columns);
    if (is_zero) std::ranges::fill(copy, 0.0F);
    matrices_.emplace(name, Matrix(TensorView<const float>(copy.data(), rows, columns)));
    source_.add(name + ".weight", {rows, columns}, std::move(copy));
  }

  test::MemoryWeights source_;
  std::map<std::string, Matrix> matrices_;
};

double product(const Matrix& a, std::size_t row_a, std::size_t begin_a, const Matrix& b, std::size_t row_b,
               std::size_t begin_b, std::size_t size) {
  double sum = 0.0;
  for (std::size_t i = 0; i < size; ++i) sum += a(row_a, begin_a + i) * b(row_b, begin_b + i);
  return sum;
}

// The blocks that a token reads for a KV head.
std::vector<std::int32_t> chosen_blocks(const BlockIndexerSpec& spec, const Matrix& query, const Matrix& key,
                                        std::size_t kv_head, std::size_t position) {
  const std::size_t own = position / spec.block_size;
  std::vector<double> scores(own + 1, -INFINITY);
  for (std::size_t p = 0; p <= position; ++p) {
    const double score = product(query, position, kv_head * spec.head_dim, key, p, 0, spec.head_dim);
    scores[p / spec.block_size] = std::max(scores[p / spec.block_size], score);
  }
  for (std::size_t i = 0; i < std::min(spec.local, scores.size()); ++i) scores[own - i] = INFINITY;
  return reference::highest<double>(scores, std::min(spec.top_k, scores.size()));
}

// Computes whole rows of scores, in which unchosen blocks have the weight 0.
Matrix naive(const AttentionSpec& spec, const IndexedWeights& weights, const Matrix& x) {
  const BlockIndexerSpec& indexer = *spec.block_indexer;
  const std::size_t dim = spec.head_dim;
  const std::size_t group = spec.num_attention_heads / spec.num_key_value_heads;
  const Matrix query = matmul(x, weights("q"));
  const Matrix key = matmul(x, weights("k"));
  const Matrix value = matmul(x, weights("v"));
  const auto normed = [&](const std::string& projection, const std::string& gain, std::size_t heads) {
    const Matrix all = matmul(x, weights(projection));
    Matrix result(all.rows, all.columns);
    for (std::size_t head = 0; head < heads; ++head) {
      Matrix one(all.rows, indexer.head_dim);
      for (std::size_t r = 0; r < one.rows; ++r)
        for (std::size_t c = 0; c < one.columns; ++c) one(r, c) = all(r, head * one.columns + c);
      const Matrix part = rms_norm(one, weights(gain).values, indexer.norm.eps);
      for (std::size_t r = 0; r < one.rows; ++r)
        for (std::size_t c = 0; c < one.columns; ++c) result(r, head * one.columns + c) = part(r, c);
    }
    return result;
  };
  const Matrix index_query = normed("index_q", "q_gain", spec.num_key_value_heads);
  const Matrix index_key = normed("index_k", "k_gain", 1);
  Matrix attended(x.rows, spec.num_attention_heads * dim);
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t head = 0; head < spec.num_attention_heads; ++head) {
      const std::size_t kv_head = head / group;
      const std::vector<std::int32_t> blocks = chosen_blocks(indexer, index_query, index_key, kv_head, t);
      double sum = 0.0;
      std::vector<double> out(dim);
      for (std::size_t p = 0; p <= t; ++p) {
        if (!std::ranges::binary_search(blocks, static_cast<std::int32_t>(p / indexer.block_size))) continue;
        const double weight = std::exp(product(query, t, head * dim, key, p, kv_head * dim, dim) *
                                       static_cast<double>(spec.scale));
        sum += weight;
        for (std::size_t i = 0; i < dim; ++i) out[i] += weight * value(p, kv_head * dim + i);
      }
      for (std::size_t i = 0; i < dim; ++i) attended(t, head * dim + i) = out[i] / sum;
    }
  }
  return matmul(attended, weights("o"));
}

// Runs the tokens of x as one sequence, in chunks. Returns the sum over ranks.
std::vector<float> run(Communicator& comm, const Attention& attention, TensorView<const float> x,
                       std::size_t chunk, std::size_t block_size) {
  const std::size_t blocks = (x.rows() + block_size - 1) / block_size;
  const KvCache cache({attention.kv_layout(KvType::f32, block_size)}, blocks);
  std::vector<std::int32_t> table;
  for (std::size_t block = blocks; block > 0; --block) table.push_back(static_cast<std::int32_t>(block - 1));
  Workspace workspace(std::size_t{1} << 22);
  std::vector<float> out;
  for (std::size_t begin = 0; begin < x.rows(); begin += chunk) {
    const Workspace::Frame frame(workspace);
    const std::size_t tokens = std::min(chunk, x.rows() - begin);
    Batch batch;
    for (std::size_t i = 0; i < tokens; ++i) batch.positions.push_back(begin + i);
    batch.spans[0].push_back({0, tokens, begin, table});
    const StepContext step{batch, workspace};
    const TensorView<float> y = all_reduce(comm, attention(x.rows_from(begin, tokens), step, cache.layer(0)));
    for (std::size_t t = 0; t < tokens; ++t) out.insert(out.end(), y.row(t), y.row(t) + y.columns());
  }
  return out;
}

AttentionSpec random_indexed_spec(Random& random, std::size_t ranks) {
  AttentionSpec spec;
  spec.num_key_value_heads = random.integer(1, 3);
  spec.num_attention_heads =
      spec.num_key_value_heads * random.integer((ranks - 1) / spec.num_key_value_heads + 1, ranks + 2);
  spec.head_dim = 2 * random.integer(1, 12);
  spec.scale = 0.3F;
  const std::size_t top_k = random.integer(1, 5);
  spec.block_indexer = BlockIndexerSpec{.head_dim = random.integer(1, 20),
                                        .block_size = random.integer(1, 9),
                                        .top_k = top_k,
                                        .local = random.integer(1, std::min<std::size_t>(top_k, 2)),
                                        .norm = {.eps = 1e-5F}};
  return spec;
}

class BlockIndexerTest : public testing::TestWithParam<bool> {};

// With equal keys, all scores are 0, and blocks at lower positions come first.
TEST_P(BlockIndexerTest, ReadsTheHighestBlocksForAnyBlockSizesAndChunks) {
  Communicator& comm = test::world();
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    const AttentionSpec spec = random_indexed_spec(random, comm.size());
    const BlockIndexerSpec& indexer = *spec.block_indexer;
    const std::size_t tokens = random.integer(1, 70);
    const std::size_t chunk = random.integer(1, tokens);
    const std::size_t block_size = random.integer(1, 20);
    SCOPED_TRACE(fmt::format(
        "seed {}: {} tokens in chunks of {}, {} heads and {} KV heads of {}; {} blocks of {}, {} of them "
        "local; blocks of {} in the cache",
        seed, tokens, chunk, spec.num_attention_heads, spec.num_key_value_heads, spec.head_dim, indexer.top_k,
        indexer.block_size, indexer.local, block_size));
    const IndexedWeights weights(spec, random, GetParam());
    WeightLoader loader(weights.source(), {comm.rank(), comm.size()}, WeightType::f32, {});
    const Attention attention(loader, spec, kHidden, names_of_indexed_attention());
    const RandomTensor x(random, tokens, kHidden);
    std::vector<float> y = run(comm, attention, x.view(), chunk, block_size);
    // Sums of some hundreds of products near 1.
    EXPECT_CLOSE(TensorView<const float>(y.data(), tokens, kHidden), naive(spec, weights, Matrix(x.view())),
                 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Keys, BlockIndexerTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Equal" : "Different"; });

// Every KV head has a copy of the index key, in bf16 unless all keys are float32.
TEST(BlockIndexer, StoresAnIndexKeyPerKvHead) {
  AttentionSpec spec{.num_attention_heads = 64, .num_key_value_heads = 4, .head_dim = 128};
  spec.block_indexer = BlockIndexerSpec{.head_dim = 128, .block_size = 128, .top_k = 16};
  Random random(1);
  const IndexedWeights weights(spec, random, false);
  for (const auto& [ranks, kv_heads] : {std::pair{1U, 4U}, {2U, 2U}, {8U, 1U}}) {
    WeightLoader loader(weights.source(), {0, ranks}, {}, {}, WeightLoader::Mode::shapes);
    const Attention attention(loader, spec, kHidden, names_of_indexed_attention());
    EXPECT_EQ(attention.kv_layout(KvType::bf16, 32).block_bytes(), kv_heads * 32 * 3 * 128 * std::size_t{2});
  }
}

}  // namespace
}  // namespace tp
