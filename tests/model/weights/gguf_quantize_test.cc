#include "model/weights/gguf/gguf_quantize.h"

#include "model/weights/gguf/gguf_dequantize.h"
#include "tests/reference/gguf.h"
#include "tp/error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kColumns = 4096;

std::vector<float> normal_row(std::size_t columns, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> row(columns);
  for (float& element : row) element = normal(random);
  return row;
}

// Encodes a row and returns the values of its bytes, by the definition of the format.
std::vector<float> decoded(const GgufType& type, std::span<const float> row) {
  std::vector<std::byte> bytes(type.bytes_of(row.size()));
  quantize(type, row, bytes.data());
  std::vector<float> values(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto* const block =
        reinterpret_cast<const std::uint8_t*>(bytes.data()) + i / type.block_elements * type.block_bytes;
    values[i] = reference::gguf_element(type.name, block, i % type.block_elements);
  }
  std::vector<float> read(row.size());
  dequantize(type, bytes.data(), {0, row.size()}, read.data());
  EXPECT_EQ(read, values) << type.name;
  return values;
}

double relative_error(std::span<const float> values, std::span<const float> expected) {
  double error = 0.0;
  double sum = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::pow(static_cast<double>(values[i]) - expected[i], 2);
    sum += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(error / sum);
}

struct Known {
  std::string_view type;
  double error;  // relative RMS of ggml's encoders on normally distributed elements
};

// ggml_quantize_chunk of libggml-base 0.5.0 (node-llama-cpp 3) for 2^18 such elements.
constexpr Known kKnown[] = {
    {"Q8_0", 0.00537},  {"Q4_0", 0.0861},   {"Q4_1", 0.0782},  {"Q5_0", 0.0428}, {"Q5_1", 0.0379},
    {"Q2_K", 0.2963},   {"Q3_K", 0.1507},   {"Q4_K", 0.0714},  {"Q5_K", 0.0361}, {"Q6_K", 0.0178},
    {"IQ4_NL", 0.0762}, {"IQ4_XS", 0.0767}, {"MXFP4", 0.1144},
};

TEST(GgufQuantize, IsAtLeastAsExactAsGgmlForAllTypes) {
  for (const Known& known : kKnown) {
    const GgufType& type = *find_gguf_type(known.type);
    double squares = 0.0;
    constexpr unsigned kRows = 16;
    for (unsigned seed = 0; seed < kRows; ++seed) {
      const std::vector<float> row = normal_row(kColumns, seed);
      squares += std::pow(relative_error(decoded(type, row), row), 2);
    }
    EXPECT_LE(std::sqrt(squares / kRows), known.error) << known.type;
  }
}

// Encoders of the types with codes would need an importance matrix.
TEST(GgufQuantize, KnowsAllTypesThatCanBeReadWithElementsOfTheirOwnBits) {
  for (const GgufType& type : kGgufTypes) {
    const bool has_codes = type.name.starts_with("IQ1") || type.name.starts_with("IQ2") ||
                           type.name.starts_with("IQ3") || type.name.starts_with("TQ") ||
                           type.name == "NVFP4";
    const std::vector<float> row(type.block_elements);
    std::vector<std::byte> bytes(type.block_bytes);
    if (type.readable && !has_codes) {
      EXPECT_NO_THROW(quantize(type, row, bytes.data())) << type.name;
    } else {
      EXPECT_THROW(quantize(type, row, bytes.data()), CheckpointError) << type.name;
    }
  }
}

// Rounds to nearest with the scale and offset at which the levels just span each group: elements, group
// scales and offsets are rounded once, halves not at all.
struct Naive {
  std::string_view type;
  std::size_t group;
  int levels;
  bool has_offsets;
  int scales;  // largest scale
};
constexpr Naive kNaive[] = {{"Q2_K", 16, 4, true, 15},
                            {"Q3_K", 16, 8, false, 31},
                            {"Q4_K", 32, 16, true, 63},
                            {"Q5_K", 32, 32, true, 63},
                            {"Q6_K", 16, 64, false, 127}};

std::vector<float> rounded_to_nearest(const Naive& type, std::span<const float> row) {
  std::vector<float> values(row.size());
  for (std::size_t super = 0; super < row.size(); super += 256) {
    std::vector<float> scales;
    std::vector<float> offsets;
    for (std::size_t first = super; first < super + 256; first += type.group) {
      const auto group = row.subspan(first, type.group);
      const auto [low, high] = std::minmax_element(group.begin(), group.end());
      const float offset = type.has_offsets ? std::min(*low, 0.0F) : 0.0F;
      const float max = std::max(std::abs(*low), std::abs(*high));
      scales.push_back(type.has_offsets ? (*high - offset) / static_cast<float>(type.levels - 1)
                                        : max / static_cast<float>(type.levels / 2 - 1));
      offsets.push_back(offset);
    }
    const float unit = *std::max_element(scales.begin(), scales.end()) / static_cast<float>(type.scales);
    const float offset_unit =
        *std::min_element(offsets.begin(), offsets.end()) / static_cast<float>(type.scales);
    for (std::size_t i = 0; i < 256; ++i) {
      const float scale = std::round(scales[i / type.group] / unit) * unit;
      const float offset =
          type.has_offsets ? std::round(offsets[i / type.group] / offset_unit) * offset_unit : 0.0F;
      const float lowest = type.has_offsets ? 0.0F : -static_cast<float>(type.levels) / 2;
      const float level = std::clamp(std::round((row[super + i] - offset) / scale), lowest,
                                     lowest + static_cast<float>(type.levels - 1));
      values[super + i] = scale * level + offset;
    }
  }
  return values;
}

TEST(GgufQuantize, FindsBetterScalesThanTheGroupsMaxima) {
  const std::vector<float> row = normal_row(1 << 16, 7);
  for (const Naive& naive : kNaive) {
    const double nearest = relative_error(rounded_to_nearest(naive, row), row);
    const double ours = relative_error(decoded(*find_gguf_type(naive.type), row), row);
    EXPECT_LT(ours, 0.97 * nearest) << naive.type;
  }
}

TEST(GgufQuantize, KeepsZeros) {
  const std::vector<float> zeros(512, 0.0F);
  for (const Known& known : kKnown) {
    for (const float value : decoded(*find_gguf_type(known.type), zeros))
      ASSERT_EQ(value, 0.0F) << known.type;
  }
}

// For unusual rows, the search's result is finite, and not worse than zeros.
TEST(GgufQuantize, CopesWithUnusualRows) {
  const std::vector<std::pair<std::string, std::function<float(std::size_t)>>> rows = {
      {"one value", [](std::size_t) { return 0.7F; }},
      {"one negative value", [](std::size_t) { return -0.7F; }},
      {"an outlier", [](std::size_t i) { return i == 77 ? 30.0F : 0.001F; }},
      {"zeros and an outlier", [](std::size_t i) { return i == 300 ? -4.0F : 0.0F; }},
      {"two signs", [](std::size_t i) { return i % 2 == 0 ? 1.0F : -1.0F; }},
      {"only positive ones", [](std::size_t i) { return 1.0F + static_cast<float>(i % 7); }},
      {"tiny ones", [](std::size_t i) { return (static_cast<float>(i % 5) - 2) * 1e-12F; }},
      {"subnormal ones", [](std::size_t i) { return (static_cast<float>(i % 5) - 2) * 1e-44F; }},
      {"large ones", [](std::size_t i) { return i % 3 == 0 ? 65504.0F : -30000.0F; }},
  };
  for (const auto& [name, element] : rows) {
    std::vector<float> row(512);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = element(i);
    for (const Known& known : kKnown) {
      const std::vector<float> values = decoded(*find_gguf_type(known.type), row);
      for (const float value : values) ASSERT_TRUE(std::isfinite(value)) << known.type << ", " << name;
      EXPECT_LE(relative_error(values, row), 1.0 + 1e-6) << known.type << ", " << name;
    }
  }
}

TEST(GgufQuantize, RoundsToNearestEvenWhereElementsHaveNoBlocks) {
  const std::vector<float> row = {1.0F,           -0.0F,    1.0F + 0x1p-11F, 1.0F + 0x1.8p-10F,
                                  1.0F + 0x1p-8F, 0x1p-24F, 65504.0F};
  std::vector<std::uint16_t> bits(row.size());
  quantize(*find_gguf_type("F16"), row, reinterpret_cast<std::byte*>(bits.data()));
  EXPECT_EQ(bits, (std::vector<std::uint16_t>{0x3c00, 0x8000, 0x3c00, 0x3c02, 0x3c04, 0x0001, 0x7bff}));
  quantize(*find_gguf_type("BF16"), row, reinterpret_cast<std::byte*>(bits.data()));
  EXPECT_EQ(bits, (std::vector<std::uint16_t>{0x3f80, 0x8000, 0x3f80, 0x3f80, 0x3f80, 0x3380, 0x4780}));
  std::vector<float> copy(row.size());
  quantize(*find_gguf_type("F32"), row, reinterpret_cast<std::byte*>(copy.data()));
  EXPECT_EQ(std::memcmp(copy.data(), row.data(), row.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace tp
