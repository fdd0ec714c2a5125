// GGUF models with code types: the ranks' parts, and the logits.
#include "tests/model/weights/mixed_gguf.h"

#include "model/config/config.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/weight_loader.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::ModelUnderTest;

constexpr std::array<std::string_view, 10> kTypes = {"IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S",
                                                     "IQ1_S",   "IQ1_M",  "TQ1_0", "TQ2_0",   "NVFP4"};
constexpr std::array<std::string_view, 6> kSix = {"IQ3_XXS", "IQ2_XXS", "IQ1_M", "NVFP4", "TQ1_0", "Q6_K"};

// A model in a file, and a file with equal values in float32.
struct Files {
  explicit Files(const test::MixedGguf& model) {
    directory.write("stored.gguf", model.stored());
    directory.write("plain.gguf", model.plain());
    stored = GgufCheckpoint::open(directory.path() / "stored.gguf");
    plain = GgufCheckpoint::open(directory.path() / "plain.gguf");
  }
  CheckpointConfig config() const { return load_config(directory.path() / "stored.gguf"); }

  test::TemporaryDirectory directory;
  std::unique_ptr<GgufCheckpoint> stored;
  std::unique_ptr<GgufCheckpoint> plain;
};

std::vector<TokenId> prompt() {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < 24; ++i)
    tokens.push_back(static_cast<TokenId>((i * 97 + 5) % test::kMixedVocab));
  return tokens;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Compares a weight's rows, which are rows and columns of a stored matrix, bit for bit.
void expect_values(const Files& files, const LocalWeight& weight, const std::string& layer, MatrixShape shape,
                   const TensorSlice& slice) {
  std::vector<float> held(slice.columns.size());
  std::vector<float> expected(slice.columns.size());
  for (std::size_t row = 0; row < slice.rows.size(); ++row) {
    weight.unpack_row(row, held.data());
    const std::size_t stored = slice.rows.begin + row;
    files.plain->read(layer + ".weight", shape, {{stored, stored + 1}, slice.columns},
                      {expected.data(), 1, expected.size()});
    ASSERT_EQ(held, expected) << layer << ", row " << stored;
  }
}

// Ranks cut super-blocks between and within blocks of 64; see mixed_gguf.h.
TEST(MixedGguf, RanksHoldTheFilesValuesInItsSize) {
  const TpRank tp{test::world().rank(), test::world().size()};
  for (const std::string_view name : kTypes) {
    SCOPED_TRACE(name);
    const GgufType& type = *find_gguf_type(name);
    const Files files(test::MixedGguf(std::span(&name, 1)));
    WeightLoader loader(*files.stored, tp, {}, {});
    const MatrixShape down{test::kMixedHidden, test::kMixedIntermediate};
    for (const std::size_t ranks : {tp.size, std::size_t{8}, std::size_t{24}}) {
      const Range columns = shard_columns(down.columns, {tp.rank, ranks});
      const LocalWeight weight =
          loader.columns_of_weight({"model.layers.0.mlp.down_proj", down, "sizes"}, columns);
      EXPECT_EQ(name_of(weight.type()), lower(type.name));
      expect_values(files, weight, "model.layers.0.mlp.down_proj", down, {{0, down.rows}, columns});
      const std::size_t stored = down.rows * type.bytes_of(down.columns) / ranks;
      if (ranks <= 2) {
        // Both ranks store the scale of the super-block that they cut.
        const double of_cut = ranks == 1 ? 0.0 : 4.0 * static_cast<double>(down.rows);
        EXPECT_LE(static_cast<double>(weight.bytes()), 1.03 * static_cast<double>(stored) + of_cut);
      }
    }
    const MatrixShape up{test::kMixedIntermediate, test::kMixedHidden};
    const Range rows = shard_columns(up.rows, tp);
    const std::vector<LocalWeight> weights =
        loader.rows_of_weights(std::vector<OwnedRows>{{{"model.layers.1.mlp.up_proj", up}, rows}});
    ASSERT_EQ(weights.size(), 1U);
    expect_values(files, weights.front(), "model.layers.1.mlp.up_proj", up, {rows, {0, up.columns}});
  }
}

// With float32, only the order of sums differs. Otherwise activations are rounded to 8 bits; see
// gguf_fixtures_test.cc for the tolerance.
TEST(MixedGguf, HasTheLogitsOfItsValues) {
  const Files files((test::MixedGguf(kSix)));
  const std::vector<TokenId> tokens = prompt();
  const CheckpointConfig config = files.config();
  ModelUnderTest plain(test::world(), config, *files.plain, {.weights = WeightType::f32});
  const std::vector<float> expected = plain.whole(plain.append(tokens));
  const auto largest_difference = [&](std::optional<WeightType> type) {
    ModelUnderTest decoder(test::world(), config, *files.stored, {.weights = type});
    const std::vector<float> logits = decoder.whole(decoder.append(tokens));
    EXPECT_EQ(logits.size(), expected.size());
    double largest = 0.0;
    for (std::size_t i = 0; i < logits.size(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(logits[i]) - expected[i]));
    return largest;
  };
  EXPECT_EQ(largest_difference(WeightType::f32), 0.0);
  const double rounded = largest_difference(std::nullopt);
  double squares = 0.0;
  for (const float logit : expected) squares += static_cast<double>(logit) * logit;
  const double deviation =
      std::sqrt(squares / static_cast<double>(std::max<std::size_t>(expected.size(), 1)));
  EXPECT_LE(rounded, 6 * std::sqrt(4.0 * test::kMixedLayers + 1) * 0.0052 * deviation);
  if (test::world().rank() == 0) {
    EXPECT_GT(rounded, 0.0);  // the weights were not converted
  }
}

TEST(MixedGguf, NamesTheTypesThatItHolds) {
  const Files files((test::MixedGguf(kTypes)));
  for (const TypeUse& use : files.stored->types()) {
    ASSERT_TRUE(use.held_as) << use.type;
    EXPECT_EQ(name_of(*use.held_as), lower(use.type));
    EXPECT_TRUE(use.exactly) << use.type;
  }
}

TEST(MixedGguf, FactorsAreNotUnusedTensors) {
  const std::string_view type = "NVFP4";
  const Files files((test::MixedGguf(std::span(&type, 1))));
  for (const std::string& name : files.stored->unread()) EXPECT_FALSE(name.ends_with("scale")) << name;
  EXPECT_FALSE(files.stored->unread().empty());
}

}  // namespace
}  // namespace tp
