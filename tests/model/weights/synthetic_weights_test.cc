#include "model/weights/synthetic/synthetic_weights.h"

#include "model/weights/source/widen.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/weights/read_tensor.h"
#include "tp/error.h"

#include <bit>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::read_slice;
using test::read_whole;

const std::string matrix = "model.layers.3.mlp.down_proj.weight";

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments_of(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const double count = static_cast<double>(values.size());
  return {sum / count, std::sqrt(squares / count - sum / count * sum / count)};
}

double correlation(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum / (static_cast<double>(a.size()) * moments_of(a).deviation * moments_of(b).deviation);
}

TEST(SyntheticWeights, SlicesEqualThePartsOfTheWhole) {
  std::mt19937 random(3);
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    const SyntheticWeights weights(type);
    for (const std::string& name : {matrix, std::string("model.norm.weight")}) {
      const MatrixShape shape{17, 133};
      const std::vector<float> whole = read_whole(weights, name, shape);
      for (int i = 0; i < 200; ++i) {
        const std::size_t row = random() % shape.rows, column = random() % shape.columns;
        const TensorSlice slice{{row, row + random() % (shape.rows - row + 1)},
                                {column, column + random() % (shape.columns - column + 1)}};
        const std::vector<float> part = read_slice(weights, name, shape, slice);
        for (std::size_t j = 0; j < part.size(); ++j) {
          const std::size_t r = slice.rows.begin + j / slice.columns.size();
          const std::size_t c = slice.columns.begin + j % slice.columns.size();
          ASSERT_EQ(part[j], whole[r * shape.columns + c]);
        }
      }
    }
  }
}

TEST(SyntheticWeights, KeepActivationsAtTheirSize) {
  const SyntheticWeights weights;
  for (const std::size_t columns : {64u, 1000u, 4096u}) {
    const Moments moments = moments_of(read_whole(weights, matrix, {500, columns}));
    EXPECT_NEAR(moments.mean * std::sqrt(columns), 0, 0.03);
    EXPECT_NEAR(moments.deviation * std::sqrt(columns), 1, 0.03);
  }
}

TEST(SyntheticWeights, SuitTheKindOfTensor) {
  const SyntheticWeights weights;
  for (const char* name : {"model.norm.weight", "model.layers.0.input_layernorm.weight",
                           "model.layers.0.self_attn.q_norm.weight", "transformer.h.0.ln_1.weight",
                           "transformer.ln_f.weight", "ln_f.weight", "h.1.ln_attn.weight"}) {
    const Moments norm = moments_of(read_whole(weights, name, {1, 4096}));
    EXPECT_NEAR(norm.mean, 1, 0.01) << name;
    EXPECT_NEAR(norm.deviation, 0.05, 0.01) << name;
  }
  const Moments bias = moments_of(read_whole(weights, "model.layers.0.self_attn.q_proj.bias", {1, 4096}));
  EXPECT_NEAR(bias.mean, 0, 0.002);
  EXPECT_NEAR(bias.deviation, 0.02, 0.002);
}

TEST(SyntheticWeights, AreUniform) {
  const std::vector<float> values = read_whole(SyntheticWeights(DType::f32), matrix, {256, 4096});
  std::vector<int> counts(64);
  for (const float value : values) {
    const double position = (value * 64.0 / std::sqrt(3.0) + 1) / 2;  // in [0, 1]: the deviation is 1/64
    ASSERT_GE(position, 0);
    ASSERT_LE(position, 1);
    ++counts[std::min<std::size_t>(63, static_cast<std::size_t>(position * 64))];
  }
  // 16384 expected in each; the deviation of such a count is 127.
  for (const int count : counts) EXPECT_NEAR(count, 16384, 5 * 127);
}

TEST(SyntheticWeights, DifferByNameRowColumnAndSeed) {
  const MatrixShape shape{64, 4096};
  const SyntheticWeights weights(DType::f32);
  const std::vector<float> one = read_whole(weights, matrix, shape);
  const std::vector<float> renamed = read_whole(weights, "model.layers.4.mlp.down_proj.weight", shape);
  const std::vector<float> seeded = read_whole(SyntheticWeights(DType::f32, 1), matrix, shape);
  // The correlation of 262144 independent pairs has a deviation of 0.002.
  EXPECT_NEAR(correlation(one, renamed), 0, 0.01);
  EXPECT_NEAR(correlation(one, seeded), 0, 0.01);
  const auto shifted = [&](std::size_t by) {
    return correlation({one.begin() + static_cast<std::ptrdiff_t>(by), one.end()},
                       {one.begin(), one.end() - static_cast<std::ptrdiff_t>(by)});
  };
  EXPECT_NEAR(shifted(1), 0, 0.01);
  EXPECT_NEAR(shifted(shape.columns), 0, 0.01);
  // 32-bit hashes scaled to 24-bit mantissas: few values may be equal.
  EXPECT_GT((std::set<float>(one.begin(), one.end()).size()), one.size() * 9 / 10);
}

TEST(SyntheticWeights, AreExactInTheirType) {
  for (const std::string& name : {matrix, std::string("model.norm.weight"), std::string("x.bias")}) {
    for (const float value : read_whole(SyntheticWeights(DType::bf16), name, {64, 512})) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(value) & 0xffffu, 0u);
    }
  }
  std::set<float> halves;
  for (std::uint16_t bits = 0; bits < 0x7c00; ++bits) {
    halves.insert({float_from_f16(bits), -float_from_f16(bits)});
  }
  // So many columns make f16 subnormals common: the deviation is 2^-11.
  for (const auto& [name, shape] :
       {std::pair{matrix, MatrixShape{1, 1 << 22}}, {"x.norm.weight", {1, 512}}}) {
    for (const float value : read_whole(SyntheticWeights(DType::f16), name, shape)) {
      ASSERT_TRUE(halves.contains(value)) << value;
    }
  }
}

TEST(SyntheticWeights, AreRoundedToTheNearest) {
  const MatrixShape shape{1, 1 << 20};
  const std::vector<float> exact = read_whole(SyntheticWeights(DType::f32), matrix, shape);
  const std::vector<float> f16 = read_whole(SyntheticWeights(DType::f16), matrix, shape);
  const std::vector<float> bf16 = read_whole(SyntheticWeights(DType::bf16), matrix, shape);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    ASSERT_LE(std::fabs(bf16[i] - exact[i]), std::fabs(exact[i]) * 0x1p-8f);
    ASSERT_LE(std::fabs(f16[i] - exact[i]), std::max(std::fabs(exact[i]) * 0x1p-11f, 0x1p-25f));
  }
}

TEST(SyntheticWeights, HaveTensorsOfAnyNameAndShape) {
  const SyntheticWeights weights(DType::f16);
  EXPECT_TRUE(weights.contains("whatever"));
  EXPECT_TRUE(weights.names().empty());
  EXPECT_EQ(weights.dtype("whatever"), DType::f16);
  weights.expect("whatever", {3, 4}, "x");
  EXPECT_EQ(weights.stored_bytes(), 0u);
  EXPECT_EQ(weights.bytes_read(), 0u);
  read_whole(weights, "whatever", {3, 4});
  EXPECT_EQ(weights.bytes_read(), 24u);
  EXPECT_EQ(weights.fingerprint(), SyntheticWeights(DType::f16).fingerprint());
  EXPECT_NE(weights.fingerprint(), SyntheticWeights(DType::bf16).fingerprint());
  EXPECT_NE(weights.fingerprint(), SyntheticWeights(DType::f16, 1).fingerprint());
  std::vector<float> out(100);
  EXPECT_CONTAINS(test::error_of<CheckpointError>([&] {
                    weights.read("whatever", {3, 4}, {{0, 4}, {0, 4}}, {out.data(), 4, 4});
                  }),
                  "it has only [3, 4]");
}

TEST(SyntheticWeights, AreTheSameInEveryBuild) {
  // The values that ranks of different builds must agree on; computed by this code, so a change of it shows
  // here.
  const std::vector<float> values =
      read_slice(SyntheticWeights(DType::bf16), matrix, {8, 8}, {{5, 6}, {2, 6}});
  EXPECT_EQ(values, (std::vector<float>{-0.2578125f, 0.1953125f, -0.177734375f, -0.318359375f}));
}

}  // namespace
}  // namespace tp
