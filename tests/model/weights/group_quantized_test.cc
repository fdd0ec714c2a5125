// Checkpoints of AWQ, GPTQ, compressed-tensors and FP8 on several ranks.
#include "model/config/architectures.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/stored_projection.h"
#include "model/weights/weight_loader.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/weights/quantized_model.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tp/mpi.h"

#include <cmath>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::FourBitFormat;
using reference::GroupFormat;
using test::F8Blocks;
using test::four_bit_floats;
using test::ModelUnderTest;
using test::Order;
using Case = test::QuantizedCase;

constexpr Case kCases[] = {
    {"llama-rope-yarn", GroupFormat::awq, 32, false},
    {"llama-rope-yarn", GroupFormat::gptq, 32, false},
    {"llama-rope-yarn", GroupFormat::packed, 0, true},
    {nullptr, GroupFormat::awq, 128, false},
    {nullptr, GroupFormat::gptq, 128, false},
    {nullptr, GroupFormat::gptq_v2, 64, false},
    {nullptr, GroupFormat::packed, 128, true},
    {nullptr, GroupFormat::packed_zeros, 128, true},
    {nullptr, GroupFormat::packed_zeros, 64, false},
    {nullptr, GroupFormat::packed_int8_zeros, 32, true},
    {nullptr, GroupFormat::packed, 32, false},
    {nullptr, GroupFormat::packed, 32, true},
    {nullptr, GroupFormat::gptq, 128, false, 8},
    {nullptr, GroupFormat::packed, 128, true, 8},
    {nullptr, GroupFormat::packed_zeros, 64, true, 8},
    {nullptr, GroupFormat::int8, 0, true, 8},
    {nullptr, GroupFormat::int8, 128, false, 8},
    {nullptr, GroupFormat::packed, 48, true, 4, Order::by_activations},
    {nullptr, GroupFormat::gptq, 128, false, 4, Order::by_activations},
    {nullptr, GroupFormat::gptq_v2, 64, false, 4, Order::of_matrices},
    {nullptr, GroupFormat::gptq, 128, false, 8, Order::by_activations},
    {nullptr, GroupFormat::awq, 0, false, 8, Order::plain, F8Blocks{128, 128, "F32"}},
    {nullptr, GroupFormat::awq, 0, false, 8, Order::plain, F8Blocks{24, 100, "BF16"}},
    {nullptr, GroupFormat::awq, 0, false, 8, Order::plain, F8Blocks{1, 1000, "BF16"}},
    {nullptr, GroupFormat::awq, 0, false, 8, Order::plain, F8Blocks{1000, 1000, "F32"}},
    {"llama-rope-yarn", GroupFormat::awq, 0, false, 8, Order::plain, F8Blocks{128, 128, "F32"}},
    {"llama-rope-yarn", GroupFormat::gptq, 16, false, 4, Order::by_activations},
    four_bit_floats(nullptr, FourBitFormat::modelopt, 16),
    four_bit_floats(nullptr, FourBitFormat::packed, 16),
    four_bit_floats("llama-rope-yarn", FourBitFormat::modelopt, 16),
    four_bit_floats(nullptr, FourBitFormat::nf4, 64),
    four_bit_floats(nullptr, FourBitFormat::nf4_double, 64),
};

std::string case_name(const Case& of) {
  const std::string model = of.fixture != nullptr ? "fixture" : "random";
  if (of.floats4) return fmt::format("{}_{}", model, reference::name_of(*of.floats4));
  if (of.f8) return fmt::format("{}_f8_of_{}_x_{}", model, of.f8->rows, of.f8->columns);
  return fmt::format("{}_{}_{}_of_{}{}{}", model, name_of(of.format), of.bits, of.group,
                     of.bf16_scales ? "_bf16" : "",
                     of.order == Order::plain ? "" : fmt::format("_order_{}", static_cast<int>(of.order)));
}

// Created once for all tests.
struct TestedModel {
  explicit TestedModel(const Case& of)
      : plain(of.fixture != nullptr ? test::plain_fixture(of.fixture) : test::plain_random()) {
    test::convert(plain, of, files);
  }
  test::Plain plain;
  test::Checkpoints files;
};

const TestedModel& model_of(const Case& of) {
  static std::map<std::string, TestedModel> models;
  return models.try_emplace(case_name(of), of).first->second;
}

class GroupQuantizedModel : public testing::TestWithParam<Case> {
 protected:
  GroupQuantizedModel() {
    source_ = open_checkpoint(files_.quantized.path());
    dequantized_ = open_checkpoint(files_.dequantized.path());
  }

  bool is_nvfp4() const { return GetParam().floats4 && *GetParam().floats4 <= FourBitFormat::packed; }
  bool is_scaled() const {
    if (GetParam().floats4) return !is_nvfp4();
    return GetParam().f8 || GetParam().bits == 8 || GetParam().order != Order::plain;
  }

  // Returns an element's share of its group's scale and zero point. Weights with an order of columns have a
  // byte per zero point, which has `bits` bits in the file.
  double bits_of_scales() const {
    const Case& of = GetParam();
    const bool has_byte = of.order != Order::plain && of.format != GroupFormat::packed;
    return files_.bits - of.bits + (has_byte ? (8.0 - of.bits) / static_cast<double>(of.group) : 0.0);
  }

  // Checks the size of the elements, and of the scales and zero points of all groups in the slice, even
  // partial ones.
  void expect_size_of(const LocalWeight& weight, MatrixShape shape, const TensorSlice& slice) const {
    if (slice.rows.size() % 16 != 0) return;
    const auto bits = static_cast<double>(GetParam().bits);
    double of_scales = bits_of_scales() * static_cast<double>(slice.size());
    if (GetParam().order != Order::plain)
      of_scales *= static_cast<double>(shape.size()) / static_cast<double>(slice.size());
    const bool cuts_groups = GetParam().group == 0 || slice.columns.begin % GetParam().group != 0 ||
                             slice.columns.end % GetParam().group != 0;
    if (cuts_groups && GetParam().order == Order::plain)
      of_scales *= static_cast<double>(shape.columns) / static_cast<double>(slice.columns.size());
    // Two numbers of a panel, where blocks of rows are cut, and which of them rows have; the columns' groups.
    const double small = static_cast<double>(weight.layout().panels()) * 64 +
                         2 * static_cast<double>(slice.columns.size()) + 64;
    EXPECT_LE(static_cast<double>(weight.bytes()),
              1.01 * (bits * static_cast<double>(slice.size()) + of_scales) / 8 + small);
  }

  std::vector<float> logits_of(Communicator& comm, const ModelSpec& spec, const WeightSource& source,
                               std::optional<WeightType> type) const {
    ModelUnderTest decoder(comm, spec, source, {.weights = type});
    return decoder.append(plain_.prompt);
  }

  const test::Plain& plain_ = model_of(GetParam()).plain;
  const test::Checkpoints& files_ = model_of(GetParam()).files;
  std::unique_ptr<WeightSource> source_;
  std::unique_ptr<WeightSource> dequantized_;
  Communicator& comm_ = test::world();
  ModelSpec spec_ = make_spec(plain_.config);
};

TEST_P(GroupQuantizedModel, GivesTheLogitsOfTheSameNumbersInFloat32) {
  EXPECT_EQ(logits_of(comm_, spec_, *source_, WeightType::f32),
            logits_of(comm_, spec_, *dequantized_, WeightType::f32));
}

// Activations are rounded like with int8, and so are weights with int8. The largest of some thousand errors
// is less than twice the largest of as many others from the same distribution.
TEST_P(GroupQuantizedModel, IsOffByTheRoundingOfActivationsWithWeightsAsStored) {
  const std::vector<float> expected = logits_of(comm_, spec_, *dequantized_, WeightType::f32);
  const auto largest_error = [&](const WeightSource& source, std::optional<WeightType> type) {
    const std::vector<float> logits = logits_of(comm_, spec_, source, type);
    double largest = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double difference = std::abs(logits[i] - expected[i]);
      largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
    }
    return largest;
  };
  const double largest = largest_error(*source_, std::nullopt);
  EXPECT_LE(largest, 2 * largest_error(*dequantized_, WeightType::int8));
}

// Compares every rank's rows and columns bit by bit, at the file's size.
TEST_P(GroupQuantizedModel, HoldsEveryRanksSlicesExactly) {
  const TpRank tp{comm_.rank(), comm_.size()};
  WeightLoader loader(*source_, tp, std::nullopt, nullptr);
  const std::size_t hidden = plain_.config.hidden_size;
  const std::size_t intermediate = plain_.config.intermediate_size;
  const Range own = loader.own_columns(intermediate);
  const StoredLayer up{"model.layers.1.mlp.up_proj", {intermediate, hidden}};
  const StoredLayer down{"model.layers.1.mlp.down_proj", {hidden, intermediate}};
  const auto expect = [&](const LocalWeight& weight, const StoredLayer& layer, const TensorSlice& slice) {
    EXPECT_GE(weight.type(), WeightType::nvfp4);
    std::vector<float> held(slice.columns.size());
    std::vector<float> stored(slice.columns.size());
    for (std::size_t row = 0; row < slice.rows.size(); ++row) {
      weight.unpack_row(row, held.data());
      const std::size_t of_file = slice.rows.begin + row;
      dequantized_->read(layer.name + ".weight", layer.shape, {{of_file, of_file + 1}, slice.columns},
                         {stored.data(), 1, stored.size()});
      ASSERT_EQ(held, stored) << layer.name << ", row " << of_file;
    }
    // A slice this small may have two partial panels of 16 rows, and two partial blocks of 64 columns.
    const std::size_t rows = (slice.rows.size() + 15) / 16 * 16;
    if (kernels::is_scaled(weight.type())) return expect_size_of(weight, layer.shape, slice);
    const std::size_t columns = (slice.columns.end + 63) / 64 * 64 - slice.columns.begin / 64 * 64;
    const std::size_t group = is_nvfp4() ? 256 : GetParam().group;  // columns whose scales are together
    const bool is_large = group >= 32 && rows * columns == slice.size();
    if (!is_large || slice.columns.begin % group != 0 || slice.columns.end % group != 0) return;
    EXPECT_LE(static_cast<double>(weight.bytes()),
              1.03 * static_cast<double>(slice.size()) * files_.bits / 8);
  };
  expect(loader.rows_of_weight({up, own}), up, TensorSlice::of_rows(up.shape, own));
  expect(loader.columns_of_weight(down, own), down, TensorSlice::of_columns(down.shape, own));
}

TEST_P(GroupQuantizedModel, HasTheSameBitsOnAnyNumberOfRanks) {
  ModelSpec spec = spec_;
  spec.same_bits = true;
  Communicator self(MPI_COMM_SELF);
  const std::vector<float> whole = logits_of(self, spec, *source_, std::nullopt);
  const std::vector<float> part = logits_of(comm_, spec, *source_, std::nullopt);
  const std::size_t all = plain_.config.vocab_size;
  const Range vocab = shard_columns(all, {comm_.rank(), comm_.size()});
  ASSERT_EQ(part.size(), plain_.prompt.size() * vocab.size());
  for (std::size_t row = 0; row < plain_.prompt.size(); ++row) {
    ASSERT_EQ(std::memcmp(part.data() + row * vocab.size(), whole.data() + row * all + vocab.begin,
                          vocab.size() * sizeof(float)),
              0)
        << "token " << row;
  }
}

// The types with a ScaledFormat are multiplied as float32 of the same values, in the same order.
TEST_P(GroupQuantizedModel, HasTheBitsOfFloat32WhereActivationsAreNotRounded) {
  if (!is_scaled()) GTEST_SKIP() << "activations are rounded";
  ModelSpec spec = spec_;
  spec.same_bits = true;
  EXPECT_EQ(logits_of(comm_, spec, *source_, std::nullopt),
            logits_of(comm_, spec, *dequantized_, WeightType::f32));
}

TEST_P(GroupQuantizedModel, IsConvertedToOtherTypes) {
  const std::vector<float> expected = logits_of(comm_, spec_, *dequantized_, WeightType::int8);
  EXPECT_EQ(logits_of(comm_, spec_, *source_, WeightType::int8), expected);
}

// A rule of GPTQModel gives the second layer 8 bits, and a rule leaves a projection in groups of 32.
TEST(GptqRules, GiveLayersDifferentBitsAndGroups) {
  const Case four{nullptr, GroupFormat::gptq, 128, false};
  const Case eight{nullptr, GroupFormat::gptq, 128, false, 8};
  const Case small{nullptr, GroupFormat::gptq, 32, false};
  const test::Plain plain = test::plain_random();
  test::Checkpoints files;
  test::convert(plain, four, files, [&](const std::string& layer) {
    if (layer.find(".layers.1.") != layer.npos) return eight;
    return layer.ends_with("up_proj") ? small : four;
  });
  nlohmann::json config = plain.json;
  config["quantization_config"] = test::config_of(four);
  config["quantization_config"]["dynamic"] = {{R"(.*\.1\..*)", {{"bits", 8}}},
                                              {R"(+:.*\.up_proj)", {{"group_size", 32}}}};
  files.quantized.write("config.json", config.dump());
  const auto stored = open_checkpoint(files.quantized.path());
  const auto dequantized = open_checkpoint(files.dequantized.path());
  EXPECT_EQ(stored->group_type("model.layers.0.mlp.gate_proj.weight", {0, 256}), WeightType::int4_g128);
  EXPECT_EQ(stored->group_type("model.layers.0.mlp.up_proj.weight", {0, 256}), WeightType::int4_g32);
  EXPECT_EQ(stored->group_type("model.layers.1.mlp.up_proj.weight", {0, 256}), WeightType::int8_scaled);
  const auto logits_of = [&](const WeightSource& source, std::optional<WeightType> type) {
    ModelUnderTest decoder(test::world(), make_spec(plain.config), source, {.weights = type});
    return decoder.append(plain.prompt);
  };
  EXPECT_EQ(logits_of(*stored, WeightType::f32), logits_of(*dequantized, WeightType::f32));
  EXPECT_EQ(logits_of(*stored, WeightType::int8), logits_of(*dequantized, WeightType::int8));
}

// Each expert's matrices have their own scales.
TEST(Nvfp4Checkpoint, HasExpertsInSeparateTensors) {
  const test::Plain plain = test::plain_fixture("olmoe");
  test::Checkpoints files;
  test::convert(plain, four_bit_floats("olmoe", FourBitFormat::modelopt, 16), files);
  const auto stored = open_checkpoint(files.quantized.path());
  const auto dequantized = open_checkpoint(files.dequantized.path());
  const std::string expert = "model.layers.1.mlp.experts.1.down_proj.weight";
  ASSERT_EQ(stored->group_type(expert, {0, 32}), WeightType::nvfp4);
  const auto logits_of = [&](const WeightSource& source, std::optional<WeightType> type) {
    ModelUnderTest decoder(test::world(), make_spec(plain.config), source, {.weights = type});
    return decoder.append(plain.prompt);
  };
  const std::vector<float> expected = logits_of(*dequantized, WeightType::f32);
  EXPECT_EQ(logits_of(*stored, WeightType::f32), expected);
  const auto largest_error = [&](const std::vector<float>& logits) {
    double largest = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      largest = std::max(largest, static_cast<double>(std::abs(logits[i] - expected[i])));
    return largest;
  };
  const double rounded = largest_error(logits_of(*stored, std::nullopt));
  EXPECT_LE(rounded, 2 * largest_error(logits_of(*dequantized, WeightType::int8)));
  EXPECT_TRUE(rounded > 0.0 || expected.empty());
}

// Rows alternate, and a rank's columns begin and end within groups.
TEST(Mxfp4Checkpoint, HoldsTheExpertsOfAStackInFourBitsExactly) {
  const auto source = open_checkpoint(reference::fixture("gptoss-mxfp4").folder);
  const ExpertNames names = family_of("GptOssForCausalLM").names.names_of_block("model.layers.1.").experts;
  const ExpertStacks stacks(*source, names, 4);
  const TpRank tp{test::world().rank(), test::world().size()};
  WeightLoader as_stored(*source, tp, std::nullopt, {});
  WeightLoader widened(*source, tp, WeightType::f32, {});
  const Range columns = as_stored.own_columns(32);
  const auto expect_equal = [](const LocalWeight& packed, const LocalWeight& plain) {
    ASSERT_EQ(packed.layout().type, WeightType::mxfp4);
    std::vector<float> found(packed.layout().in_features);
    std::vector<float> expected(found.size());
    float largest = 0.0F;
    for (std::size_t row = 0; row < packed.out_features(); ++row) {
      packed.unpack_row(row, found.data());
      plain.unpack_row(row, expected.data());
      EXPECT_EQ(found, expected) << row;
      for (const float value : expected) largest = std::max(largest, std::abs(value));
    }
    EXPECT_TRUE(largest > 0.0F || found.empty());
  };
  for (std::size_t index = 0; index < 4; ++index) {
    const StoredExpert expert = stacks.expert(index, 32, 64);
    std::vector<OwnedRows> rows;
    expert.gate.append_rows(columns, rows);
    expert.up.append_rows(columns, rows);
    const std::vector<LocalWeight> packed = as_stored.rows_of_weights(rows);
    ASSERT_EQ(packed.size(), 1U);
    EXPECT_EQ(packed.front().out_features(), 2 * columns.size());
    expect_equal(packed.front(), widened.rows_of_weights(rows).front());
    expect_equal(as_stored.columns_of_weight(expert.down, columns),
                 widened.columns_of_weight(expert.down, columns));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, GroupQuantizedModel, testing::ValuesIn(kCases),
                         [](const auto& info) { return case_name(info.param); });

}  // namespace
}  // namespace tp
