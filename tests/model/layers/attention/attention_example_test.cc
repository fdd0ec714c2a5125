// The founding texts' worked example of attention: two heads of width 2 over three tokens, without a mask.
// Each step runs like in the runtime, on as many ranks as there are heads.
#include "model/kernels/attention.h"
#include "model/layers/linear/linear.h"
#include "model/memory/kv_cache.h"
#include "parallel/exchange/collectives.h"
#include "tests/model/weights/memory_weights.h"
#include "tests/mpi_test.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp {
namespace {

// One head as in the text: [in_features, out_features]. Checkpoints store the transposed matrix.
using HeadWeight = float[4][2];
constexpr HeadWeight kQuery[2] = {{{1, 0}, {0, 1}, {1, 0}, {0, 1}}, {{0, 1}, {1, 0}, {0, 1}, {1, 0}}};
constexpr HeadWeight kKey[2] = {{{1, 0}, {0, 0}, {0, 1}, {1, 0}}, {{0, 1}, {1, 0}, {0, 1}, {1, 0}}};
constexpr HeadWeight kValue[2] = {{{1, 0}, {0, 1}, {0, 0}, {1, 0}}, {{0, 1}, {1, 0}, {0, 0}, {0, 1}}};
constexpr float kOutput[4][4] = {{1, 0, 1, 0}, {0, 1, 0, 1}, {1, 1, 0, 0}, {0, 0, 1, 1}};
constexpr float kInput[3][4] = {{1, 0, 1, 0}, {0, 1, 0, 1}, {1, 1, 0, 0}};
constexpr double kExpected[3][4] = {
    {1.232, 0.899, 2.000, 1.667}, {1.955, 1.282, 2.000, 1.327}, {1.667, 1.163, 2.000, 1.497}};

constexpr MatrixShape kShape{4, 4};

// Stacks both heads: [out_features, in_features].
std::vector<float> transposed(const HeadWeight (&heads)[2]) {
  std::vector<float> values;
  for (const HeadWeight& head : heads) {
    for (std::size_t out = 0; out < 2; ++out) {
      for (std::size_t in = 0; in < 4; ++in) values.push_back(head[in][out]);
    }
  }
  return values;
}

test::MemoryWeights make_weights() {
  test::MemoryWeights weights;
  weights.add("q.weight", kShape, transposed(kQuery));
  weights.add("k.weight", kShape, transposed(kKey));
  weights.add("v.weight", kShape, transposed(kValue));
  std::vector<float> output;
  for (std::size_t out = 0; out < 4; ++out) {
    for (std::size_t in = 0; in < 4; ++in) output.push_back(kOutput[in][out]);
  }
  weights.add("o.weight", kShape, output);
  return weights;
}

TEST(AttentionExample, GivesTheNumbersOfTheTextOnEveryRank) {
  Communicator& comm = test::world();
  const test::MemoryWeights weights = make_weights();
  const HeadShard shard = shard_heads(2, 2, {comm.rank(), comm.size()});
  const Range features{shard.query_heads.begin * 2, shard.query_heads.end * 2};
  const std::size_t width = features.size();
  WeightLoader loader(weights, {comm.rank(), comm.size()}, WeightType::f32, {});
  const std::vector<OwnedRows> rows = {
      {{"q", kShape, ""}, features}, {{"k", kShape, ""}, features}, {{"v", kShape, ""}, features}};
  const ColumnParallelLinear qkv_proj(loader, rows, false);
  const RowParallelLinear o_proj(loader, {"o", kShape, ""}, features, false);

  Workspace workspace(32768);
  const StepContext step{{}, workspace};
  std::vector<float> input(&kInput[0][0], &kInput[0][0] + 12);
  const TensorView<const float> x(input.data(), 3, 4);
  const TensorView<float> qkv = qkv_proj(x, step);  // [3, 3 * width]

  const kernels::KvLayout layout{KvType::f32, shard.local_kv_heads(), 2, 2, 2};
  const KvCache cache({layout}, 2);
  const std::vector<std::int32_t> table = {1, 0};
  const std::vector<kernels::AttentionSpan> spans = {{0, 3, 0, table}};
  kernels::store_keys_values(qkv.columns_from(width, width), qkv.columns_from(2 * width, width), spans,
                             cache.layer(0));
  std::vector<std::size_t> kv_of_head;
  for (std::size_t head = 0; head < shard.local_heads(); ++head)
    kv_of_head.push_back(shard.local_kv_of(head));
  const TensorView<float> attended = workspace.take(3, width);
  kernels::paged_attention({.query = qkv.columns_from(0, width),
                            .cache = cache.layer(0),
                            .spans = spans,
                            .kv_of_head = kv_of_head,
                            .pattern = {.causal = false, .window = {}},
                            .scale = static_cast<float>(1.0 / std::sqrt(2.0)),
                            .scratch = workspace.take(1, kernels::attention_scratch(kv_of_head, layout, 2)),
                            .out = attended});
  const TensorView<float> out = all_reduce(comm, o_proj(attended, step));
  for (std::size_t token = 0; token < 3; ++token) {
    for (std::size_t i = 0; i < 4; ++i) {
      // The text gives three decimals.
      EXPECT_NEAR(out(token, i), kExpected[token][i], 0.0005) << "token " << token << ", feature " << i;
    }
  }
}

}  // namespace
}  // namespace tp
