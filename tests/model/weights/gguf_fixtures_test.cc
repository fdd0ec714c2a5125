// GGUF models: values, logits and tokens that other programs computed.
#include "model/config/config.h"
#include "model/weights/gguf/gguf_dequantize.h"
#include "model/weights/gguf_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/name_of_fixture.h"
#include "tests/reference/npy_array.h"

#include <cstring>

#include <gtest/gtest.h>

namespace tp {
namespace {

using Fixture = reference::StoredFixture;
using test::ModelUnderTest;

class GgufFixture : public testing::TestWithParam<Fixture> {
 protected:
  bool fits() const { return config_.num_attention_heads >= comm_.size(); }

  // Compares a weight's rows from `first` on with a slice of a stored tensor, up to a `relative` error.
  void expect_elements(const LocalWeight& weight, const std::string& layer, MatrixShape shape,
                       const TensorSlice& slice, double relative, std::size_t first = 0) const {
    std::vector<float> held(slice.columns.size());
    std::vector<float> expected(slice.columns.size());
    for (std::size_t row = 0; row < slice.rows.size(); ++row) {
      weight.unpack_row(first + row, held.data());
      const std::size_t stored = slice.rows.begin + row;
      source_->read(layer + ".weight", shape, {{stored, stored + 1}, slice.columns},
                    {expected.data(), 1, expected.size()});
      for (std::size_t i = 0; i < held.size(); ++i)
        ASSERT_NEAR(held[i], expected[i], std::abs(expected[i]) * relative)
            << layer << " " << row << ", " << i;
    }
  }

  Communicator& comm_ = test::world();
  CheckpointConfig config_ = load_config(GetParam().folder);
  std::unique_ptr<GgufCheckpoint> source_ = GgufCheckpoint::open(GetParam().folder / "model.gguf");
};

// The expected logits are those of dequantized weights in float32 arithmetic; see decoder_fixtures_test.cc
// for the tolerance.
TEST_P(GgufFixture, GivesTheLogitsOfTheOriginalModellingCodeInFloat32) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  ModelUnderTest decoder(comm_, config_, *source_, {.weights = WeightType::f32});
  const std::vector<float> logits = decoder.append(GetParam().prompt);
  ASSERT_EQ(logits.size(), GetParam().prompt.size() * decoder.local_vocab().size());
  EXPECT_LE(decoder.difference(logits, GetParam().logits.view()), 1e-4);
}

TEST_P(GgufFixture, GivesTheGreedyTokensExactlyInFloat32) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  ModelUnderTest decoder(comm_, config_, *source_, {.weights = WeightType::f32});
  EXPECT_EQ(decoder.greedy(GetParam().prompt, GetParam().greedy.size()), GetParam().greedy);
}

// With stored weight types, activations are rounded to 8 bits if weights are groups of integers: by one part
// in 127 of the largest of 32, which is 2.3 deviations for normally distributed numbers. The error is 2.3 /
// 127 / sqrt(12), 0.52 % of a deviation. Otherwise they are rounded to bf16, with a smaller error. The errors
// of a layer's four products and of the LM head add up like independent ones: 1.2 % of the logits' deviation.
// The largest of some thousand normally distributed errors is below six deviations.
TEST_P(GgufFixture, IsOffByTheRoundingOfActivationsWithWeightsAsStored) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  const std::vector<float>& expected = GetParam().logits.values;
  double squares = 0.0;
  for (const float logit : expected) squares += static_cast<double>(logit) * logit;
  const double deviation = std::sqrt(squares / static_cast<double>(expected.size()));
  const double products = 4.0 * static_cast<double>(config_.num_hidden_layers) + 1;
  ModelUnderTest decoder(comm_, config_, *source_, {});
  const std::vector<float> logits = decoder.append(GetParam().prompt);
  EXPECT_LE(decoder.difference(logits, GetParam().logits.view()),
            6 * std::sqrt(products) * 0.0052 * deviation);
}

// The expected values come from other programs: the first rows of some tensors, in the file's order.
TEST_P(GgufFixture, DequantizesAsOthersDo) {
  for (const auto& file : std::filesystem::directory_iterator(GetParam().folder)) {
    const std::string name = file.path().stem();
    constexpr std::string_view kStart = "dequant_";
    if (!name.starts_with(kStart)) continue;
    const NpyArray expected = read_npy(file.path());
    const GgufFiles::Entry* const entry = source_->files().find(name.substr(kStart.size()));
    ASSERT_NE(entry, nullptr) << name;
    const GgufTensor& tensor = entry->tensor;
    const std::byte* const data = entry->file.bytes().data() + tensor.bytes.begin;
    std::vector<float> row(tensor.shape.back());
    for (std::size_t r = 0; r < expected.view().rows(); ++r) {
      dequantize(tensor.type, data + r * tensor.row_bytes(), {0, row.size()}, row.data());
      EXPECT_EQ(std::memcmp(row.data(), expected.view().row(r), row.size() * sizeof(float)), 0) << name << r;
    }
  }
}

// Compares bits if a rank's columns begin and end with the file's groups. Otherwise (three ranks of this
// small model), compares 8 bits of each element.
TEST_P(GgufFixture, KeepsWeightsInTheirStoredTypes) {
  const std::string name = "model.layers.0.mlp.down_proj";
  const MatrixShape shape{config_.hidden_size, config_.intermediate_size};
  if (!source_->contains(name + ".weight")) GTEST_SKIP() << "another layer's name";
  const std::optional<WeightType> stored = source_->group_type(name + ".weight", {0, shape.columns});
  if (!stored) GTEST_SKIP() << "no groups in it";
  const TpRank tp{comm_.rank(), comm_.size()};
  const Range columns = shard_columns(shape.columns, tp);
  WeightLoader loader(*source_, tp, {}, {});
  const LocalWeight weight = loader.columns_of_weight({name, shape, "sizes"}, columns);
  const std::size_t group = *stored == WeightType::q6_k ? 16 : 32;
  const bool is_aligned = columns.begin % group == 0 && columns.end % group == 0;
  EXPECT_EQ(weight.type(), is_aligned ? *stored : WeightType::bf16);
  expect_elements(weight, name, shape, {{0, shape.rows}, columns}, is_aligned ? 0.0 : 0x1p-8);
}

// The queries, keys and values have two types in mixed files.
TEST_P(GgufFixture, HoldsQueriesKeysAndValuesEachInTheirType) {
  const std::string block = "model.layers.0.self_attn.";
  if (!source_->contains(block + "q_proj.weight")) GTEST_SKIP() << "another layer's name";
  const std::size_t head_dim = config_.head_dim;
  std::vector<OwnedRows> parts;
  std::vector<WeightType> types;
  for (const auto& [name, heads] : {std::pair{"q_proj", config_.num_attention_heads},
                                    {"k_proj", config_.num_key_value_heads},
                                    {"v_proj", config_.num_key_value_heads}}) {
    const MatrixShape shape{heads * head_dim, config_.hidden_size};
    const auto stored = source_->group_type(block + name + ".weight", {0, shape.columns});
    if (!stored) GTEST_SKIP() << "no groups in it";
    types.push_back(*stored);
    parts.push_back({{block + name, shape}, shard_columns(shape.rows, {comm_.rank(), comm_.size()})});
  }
  WeightLoader loader(*source_, {comm_.rank(), comm_.size()}, {}, {});
  const std::vector<LocalWeight> weights = loader.rows_of_weights(parts);
  std::size_t part = 0;
  for (const LocalWeight& weight : weights) {
    std::size_t rows = 0;
    for (; rows < weight.out_features(); ++part) {
      EXPECT_EQ(weight.type(), types[part]);
      const OwnedRows& own = parts[part];
      expect_elements(weight, own.layer.name, own.layer.shape,
                      TensorSlice::of_rows(own.layer.shape, own.rows), 0.0, rows);
      rows += own.rows.size();
    }
    EXPECT_EQ(rows, weight.out_features());
  }
  EXPECT_EQ(part, 3U);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, GgufFixture, testing::ValuesIn(reference::gguf_fixtures()),
                         reference::name_of_fixture);

}  // namespace
}  // namespace tp
