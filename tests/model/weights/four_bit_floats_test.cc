// NVFP4 of ModelOpt and compressed-tensors, and bitsandbytes' nf4.
#include "tests/reference/four_bit_floats.h"

#include "model/kernels/scaled_weight.h"
#include "model/weights/open_checkpoint.h"
#include "tests/model/weights/listed_types.h"
#include "tests/model/weights/read_tensor.h"
#include "tests/reference/random.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using kernels::PackedLayout;
using kernels::QuantizedRows;
using kernels::ScaledRows;
using reference::FourBitFloats;
using reference::FourBitFormat;

constexpr FourBitFormat kFourBitFormats[] = {FourBitFormat::modelopt, FourBitFormat::packed,
                                             FourBitFormat::nf4, FourBitFormat::nf4_double};
constexpr std::size_t kFourBitRows = 40;

// Groups differ in size by powers of two.
std::vector<float> random_numbers(std::size_t size) {
  reference::Random random(size);
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i)
    values[i] = std::ldexp(random.number(), -static_cast<int>(i / 64 % 12));
  return values;
}

class FourBitFolder {
 public:
  FourBitFolder(const std::vector<test::TestTensor>& tensors, FourBitFormat format) {
    directory_.write("model.safetensors", test::safetensors_file(tensors));
    directory_.write("config.json",
                     nlohmann::json{{"quantization_config", reference::quantization_config(format)}}.dump());
  }
  std::unique_ptr<WeightSource> open() const { return open_checkpoint(directory_.path()); }

 private:
  test::TemporaryDirectory directory_;
};

// Returns the rows of a type with a QuantFormat as stored in memory.
std::vector<std::byte> packed_quants(const WeightSource& source, MatrixShape shape, const TensorSlice& slice,
                                     const PackedLayout& layout) {
  const kernels::QuantFormat& format = *kernels::quant_format(layout.type);
  const std::size_t rows = slice.rows.size();
  const std::size_t supers = (slice.columns.end + 255) / 256 - slice.columns.begin / 256;
  std::vector<std::uint8_t> elements(rows * supers * 256, 99);
  std::vector<std::uint8_t> scales(rows * supers * QuantizedRows::groups(format), 99);
  std::vector<std::uint16_t> halves(rows * supers * QuantizedRows::halves_of(format), 99);
  const QuantizedRows staged{rows, supers, elements.data(), scales.data(), nullptr, halves.data()};
  source.read_quantized("w.weight", shape, slice, staged);
  std::vector<std::byte> memory(layout.bytes());
  kernels::pack_quantized(layout, 0, staged, memory.data());
  return memory;
}

std::vector<std::byte> packed_scaled(const WeightSource& source, MatrixShape shape, const TensorSlice& slice,
                                     const PackedLayout& layout) {
  const std::size_t rows = slice.rows.size();
  std::vector<std::uint8_t> elements(slice.size(), 99);
  std::vector<std::uint32_t> scales(rows * layout.scaled.groups, 99);
  const std::vector<std::uint8_t> scale_rows(rows, 0);
  const ScaledRows staged{rows,    slice.columns.size(), layout.scaled.groups, elements.data(), scales.data(),
                          nullptr, scale_rows.data()};
  source.read_scaled("w.weight", shape, slice, staged);
  std::vector<std::byte> memory(layout.bytes());
  kernels::pack_scaled(layout, 0, staged, memory.data());
  return memory;
}

// The values of a slice in memory, row by row.
std::vector<float> held_values(const WeightSource& source, MatrixShape shape, const TensorSlice& slice) {
  const WeightType type = source.group_type("w.weight", slice.columns).value();
  PackedLayout layout{type, slice.rows.size(), slice.columns.size()};
  if (kernels::is_scaled(type)) {
    const StoredScales scales = source.scales_of("w.weight");
    layout.scaled = {.element = kernels::scaled_element(type),
                     .scale_type = scales.type,
                     .groups = scales.groups_of(slice.columns).size(),
                     .group = scales.column_block,
                     .phase = slice.columns.begin % scales.column_block};
  } else {
    layout.phase = slice.columns.begin % 256;
  }
  const std::vector<std::byte> memory = kernels::is_scaled(type)
                                            ? packed_scaled(source, shape, slice, layout)
                                            : packed_quants(source, shape, slice, layout);
  std::vector<float> values(slice.size());
  for (std::size_t row = 0; row < slice.rows.size(); ++row)
    kernels::unpack_row({layout, memory.data()}, row, values.data() + row * slice.columns.size());
  return values;
}

std::vector<float> values_read(const WeightSource& source, MatrixShape shape, const TensorSlice& slice) {
  return test::read_slice(source, "w.weight", shape, slice);
}

// Slices begin and end within groups, bytes and super-blocks.
TEST(FourBitFloats, HoldTheFormatsValuesBitForBit) {
  for (const FourBitFormat format : kFourBitFormats) {
    for (const std::size_t columns : {1024U, 448U}) {
      SCOPED_TRACE(fmt::format("{}, {} columns", reference::name_of(format), columns));
      const MatrixShape shape{kFourBitRows, columns};
      const FourBitFloats weight(random_numbers(shape.size()), kFourBitRows, columns, format);
      const FourBitFolder folder(weight.tensors("w"), format);
      const auto source = folder.open();
      for (const TensorSlice slice :
           {TensorSlice{{0, kFourBitRows}, {0, columns}}, TensorSlice{{3, 30}, {0, columns}},
            TensorSlice{{0, kFourBitRows}, {96, 352}}, TensorSlice{{21, 24}, {329, 378}},
            TensorSlice{{5, 6}, {255, 256}}}) {
        std::vector<float> expected;
        for (std::size_t row = slice.rows.begin; row < slice.rows.end; ++row) {
          for (std::size_t column = slice.columns.begin; column < slice.columns.end; ++column)
            expected.push_back(weight.value(row, column));
        }
        EXPECT_EQ(values_read(*source, shape, slice), expected);
        EXPECT_EQ(held_values(*source, shape, slice), expected);
      }
      EXPECT_TRUE(source->unread().empty());
      EXPECT_EQ(source->names(), std::vector<std::string>{"w.weight"});
    }
  }
}

TEST(FourBitFloats, AreNamed) {
  const auto types_of = [](FourBitFormat format) {
    const FourBitFloats weight(random_numbers(kFourBitRows * 256), kFourBitRows, 256, format);
    return test::listed_types(FourBitFolder(weight.tensors("w"), format).open()->types());
  };
  EXPECT_EQ(types_of(FourBitFormat::modelopt), "NVFP4 as nvfp4");
  EXPECT_EQ(types_of(FourBitFormat::packed), "NVFP4 as nvfp4");
  EXPECT_EQ(types_of(FourBitFormat::nf4_double), "bitsandbytes nf4, groups of 64 as nf4");
}

// NVFP4's files have 4.5 bits for an element. nf4's have 4.5, or 4.127 with double quantization, whose scales
// are float32 in memory.
TEST(FourBitFloats, TakeTheFilesSizeExceptForDoubleQuantization) {
  const PackedLayout nvfp4{WeightType::nvfp4, 256, 4096};
  EXPECT_LE(static_cast<double>(nvfp4.bytes()), 1.03 * 256 * 4096 * 4.5 / 8);
  const PackedLayout nf4{WeightType::nf4,
                         256,
                         4096,
                         false,
                         0,
                         0,
                         {.element = kernels::ScaledElement::nf4, .groups = 64, .group = 64}};
  EXPECT_EQ(static_cast<double>(nf4.bytes()), 256 * 4096 * 4.5 / 8);
}

// Returns 16 ones with a scale of any bits, and a factor.
std::unique_ptr<WeightSource> nvfp4_of_ones(const FourBitFormat format, char scale, float factor) {
  const bool is_packed = format == FourBitFormat::packed;
  const FourBitFolder folder(
      {{is_packed ? "w.weight_packed" : "w.weight", "U8", {1, 8}, std::string(8, '\x22')},
       {"w.weight_scale", "F8_E4M3", {1, 1}, std::string(1, scale)},
       {is_packed ? "w.weight_global_scale" : "w.weight_scale_2",
        "F32",
        {1},
        test::bytes_of(std::vector<float>{factor})}},
      format);
  return folder.open();
}

TEST(FourBitFloats, MultiplyOrDivideByTheScaleOfTheMatrixOnce) {
  constexpr MatrixShape kShape{1, 16};
  const TensorSlice whole = TensorSlice::whole(kShape);
  const auto expect = [&](const WeightSource& source, float value) {
    EXPECT_EQ(values_read(source, kShape, whole), std::vector<float>(16, value));
    EXPECT_EQ(held_values(source, kShape, whole), std::vector<float>(16, value));
  };
  expect(*nvfp4_of_ones(FourBitFormat::modelopt, '\x40', 3.0F), 6.0F);  // scale 2
  expect(*nvfp4_of_ones(FourBitFormat::packed, '\x40', 4.0F), 0.5F);
  expect(*nvfp4_of_ones(FourBitFormat::modelopt, '\xc0', 3.0F), -6.0F);    // scale -2
  expect(*nvfp4_of_ones(FourBitFormat::modelopt, '\x01', 1.0F), 0x1p-9F);  // subnormal
  const FourBitFolder without(
      {{"w.weight", "U8", {1, 8}, std::string(8, '\x22')}, {"w.weight_scale", "F8_E4M3", {1, 1}, "\x40"}},
      FourBitFormat::modelopt);
  expect(*without.open(), 2.0F);
}

TEST(FourBitFloats, KeepScalesThatAreNotNumbers) {
  for (const char nan : {'\x7f', '\xff'}) {
    const auto source = nvfp4_of_ones(FourBitFormat::modelopt, nan, 1.0F);
    const TensorSlice whole = TensorSlice::whole({1, 16});
    EXPECT_TRUE(std::isnan(values_read(*source, {1, 16}, whole)[5]));
    EXPECT_TRUE(std::isnan(held_values(*source, {1, 16}, whole)[5]));
  }
}

TEST(FourBitFloats, WantAllPartsOfNvfp4) {
  const auto error_with = [](FourBitFormat format, const auto& change) {
    const FourBitFloats weight(random_numbers(16 * 64), 16, 64, format);
    std::vector<test::TestTensor> tensors = weight.tensors("w");
    change(tensors);
    return test::error_of<CheckpointError>([&] { FourBitFolder(tensors, format).open(); });
  };
  EXPECT_CONTAINS(
      error_with(FourBitFormat::modelopt, [](auto& tensors) { tensors.erase(tensors.begin() + 1); }),
      "there is no tensor w.weight_scale, expected it with the other tensors of this NVFP4 weight; "
      "download the checkpoint again");
  EXPECT_CONTAINS(
      error_with(FourBitFormat::packed, [](auto& tensors) { tensors.erase(tensors.begin() + 2); }),
      "there is no tensor w.weight_global_scale, expected it with the other tensors of this "
      "compressed-tensors weight; download");
  EXPECT_CONTAINS(error_with(FourBitFormat::modelopt,
                             [](auto& tensors) {
                               tensors[1].shape = {16, 3};
                               tensors[1].data.resize(48);
                             }),
                  "w.weight is [16, 32], expected [16, 24] (8 bytes for each scale); config.json");
  EXPECT_CONTAINS(
      error_with(FourBitFormat::modelopt, [](auto& tensors) { tensors[1].dtype = "I8"; }),
      "w.weight_scale has the type I8, expected F8_E4M3 (NVFP4); use a different quantization of the model");
  EXPECT_CONTAINS(error_with(FourBitFormat::modelopt,
                             [](auto& tensors) {
                               tensors[2].shape = {2};
                               tensors[2].data += "1234";
                             }),
                  "w.weight_scale_2 is [2], expected 1 numbers; download the file again");
}

// Replaces the text of nf4's description.
std::string error_of_state(const std::string& text) {
  const FourBitFloats weight(random_numbers(16 * 128), 16, 128, FourBitFormat::nf4_double);
  std::vector<test::TestTensor> tensors = weight.tensors("w");
  tensors.back().data = text;
  tensors.back().shape = {text.size()};
  return test::error_of<CheckpointError>([&] { FourBitFolder(tensors, FourBitFormat::nf4_double).open(); });
}

// compressed-tensors' MXFP4: two elements of e2m1 per byte, the first in the lower bits, and exponents of 2.
nlohmann::json mxfp4_config(std::size_t group_size) {
  const nlohmann::json weights = {{"num_bits", 4},       {"type", "float"},
                                  {"strategy", "group"}, {"group_size", group_size},
                                  {"symmetric", true},   {"dynamic", false}};
  return {{"quantization_config",
           {{"quant_method", "compressed-tensors"},
            {"format", "mxfp4-pack-quantized"},
            {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}}}};
}

TEST(FourBitFloats, ReadMxfp4OfCompressedTensors) {
  constexpr std::size_t kRows = 3;
  constexpr std::size_t kColumns = 64;
  constexpr float kMagnitudes[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  reference::Random random(5);
  std::string packed;
  std::string scales;
  std::vector<float> expected;
  for (std::size_t group = 0; group < kRows * kColumns / 32; ++group) {
    const std::size_t exponent = random.integer(120, 134);
    scales.push_back(static_cast<char>(exponent));
    for (std::size_t i = 0; i < 16; ++i) {
      const std::size_t byte = random.integer(0, 255);
      packed.push_back(static_cast<char>(byte));
      for (const std::size_t code : {byte % 16, byte / 16}) {
        const float magnitude = std::ldexp(kMagnitudes[code % 8], static_cast<int>(exponent) - 127);
        expected.push_back(code >= 8 ? -magnitude : magnitude);
      }
    }
  }
  const std::vector<test::TestTensor> tensors = {{"w.weight_packed", "U8", {kRows, kColumns / 2}, packed},
                                                 {"w.weight_scale", "U8", {kRows, kColumns / 32}, scales}};
  const test::TemporaryDirectory directory;
  directory.write("model.safetensors", test::safetensors_file(tensors));
  directory.write("config.json", mxfp4_config(32).dump());
  const std::unique_ptr<WeightSource> source = open_checkpoint(directory.path());
  EXPECT_EQ(test::read_whole(*source, "w.weight", {kRows, kColumns}), expected);
  EXPECT_EQ(source->group_type("w.weight", {0, kColumns}), WeightType::mxfp4);
  directory.write("config.json", mxfp4_config(16).dump());
  EXPECT_THROW(open_checkpoint(directory.path()), ConfigError);
}

TEST(FourBitFloats, RefuseDescriptionsOfNf4ThatAreDamagedOrAbsurd) {
  const std::string advice = "the file may be damaged: get it again from where the model comes from";
  const std::string tensor = "model.safetensors: w.weight.quant_state.bitsandbytes__nf4: ";
  for (const std::string text : {R"({"blocksize": 64, "sha)", "", "\xff\xfe"}) {
    EXPECT_CONTAINS(error_of_state(text), tensor + "cannot read the file: expected JSON, found: ");
    EXPECT_CONTAINS(error_of_state(text), advice);
  }
  EXPECT_CONTAINS(error_of_state("[]"), tensor + "cannot use the file: found ");
  EXPECT_CONTAINS(
      error_of_state(R"({"blocksize": 64})"),
      tensor + "cannot use shape: found no list of two sizes, expected those of a matrix; " + advice);
  EXPECT_CONTAINS(error_of_state(R"({"blocksize": 64, "shape": [2048]})"), "expected those of a matrix");
  EXPECT_CONTAINS(error_of_state(R"({"blocksize": 64, "shape": [-16, 128]})"), "cannot use shape");
  EXPECT_CONTAINS(error_of_state(R"({"shape": [16, 128]})"), "blocksize");
  EXPECT_CONTAINS(error_of_state(R"({"blocksize": 0, "shape": [16, 128]})"), "cannot use blocksize");
  EXPECT_CONTAINS(error_of_state(R"({"blocksize": 64, "shape": [16, 64]})"),
                  "w.weight is [1024, 1], expected the bytes of [16, 64] elements of 4 bits; download");
  EXPECT_CONTAINS(error_of_state(R"({"blocksize": 64, "shape": [2147483647, 2147483647]})"),
                  "expected the bytes of [2147483647, 2147483647] elements");
  EXPECT_CONTAINS(
      error_of_state(R"({"blocksize": 64, "shape": [64, 32]})"),
      "w.weight has 32 input features, expected a multiple of its 64 elements that share a scale; "
      "use the original model with --weights int4");
  EXPECT_CONTAINS(error_of_state(R"({"blocksize": 128, "shape": [16, 128], "nested_offset": 0})"),
                  "w.weight.absmax is [32], expected [16] (one for 128 elements)");
  EXPECT_CONTAINS(error_of_state(R"({"blocksize": 64, "shape": [16, 128], "nested_blocksize": 8})"),
                  "w.weight.nested_absmax is [1], expected 4 numbers; download");
  EXPECT_CONTAINS(error_of_state(R"({"blocksize": 64, "shape": [16, 128], "nested_offset": "x"})"),
                  "cannot use nested_offset");
}

TEST(FourBitFloats, WantAllPartsOfNf4AndItsTable) {
  const auto error_with = [](const auto& change) {
    const FourBitFloats weight(random_numbers(16 * 128), 16, 128, FourBitFormat::nf4_double);
    std::vector<test::TestTensor> tensors = weight.tensors("w");
    change(tensors);
    return test::error_of<CheckpointError>([&] { FourBitFolder(tensors, FourBitFormat::nf4_double).open(); });
  };
  EXPECT_CONTAINS(error_with([](auto& tensors) { tensors[1].data[0] = '\x01'; }),
                  "w.weight.quant_map holds other values than bitsandbytes' nf4, expected the same; use");
  EXPECT_CONTAINS(error_with([](auto& tensors) { tensors.erase(tensors.begin() + 4); }),
                  "there is no tensor w.weight.nested_quant_map, expected it with the other tensors of this "
                  "bitsandbytes weight; download the checkpoint again");
  EXPECT_CONTAINS(error_with([](auto& tensors) {
                    tensors[0].dtype = "BF16";
                    tensors[0].shape = {512, 1};
                  }),
                  "w.weight has the type BF16, expected U8 (bitsandbytes)");
}

}  // namespace
}  // namespace tp
