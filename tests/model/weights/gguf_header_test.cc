#include "model/weights/gguf/gguf_header.h"

#include "tests/model/weights/gguf_builder.h"

#include <random>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::error_of;
using test::GgufBuilder;
using test::le;

GgufHeader parse(const std::string& file) {
  return parse_gguf_header(std::as_bytes(std::span(file)), "m.gguf");
}

std::string error_in(const std::string& file) {
  return error_of<CheckpointError>([&] { parse(file); });
}

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ8_0 = 8;

TEST(GgufHeader, ListsTensorsWithTheInnermostDimensionLast) {
  const std::string file = GgufBuilder()
                               .entry("b", {64, 3, 2}, kQ8_0, 32)
                               .entry("a", {5}, kF32, 0)
                               .data(std::string(32 + 6 * 68, '\0'))
                               .file();
  const GgufHeader header = parse(file);
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].bytes, (Range{header.size, header.size + 20}));
  EXPECT_EQ(header.tensors[1].shape, (std::vector<std::size_t>{2, 3, 64}));
  EXPECT_EQ(header.tensors[1].type.name, "Q8_0");
  EXPECT_EQ(header.tensors[1].row_bytes(), 68U);
  EXPECT_EQ(header.tensors[1].bytes, (Range{header.size + 32, file.size()}));
}

TEST(GgufHeader, ReadsMetadataOfEveryKind) {
  const std::string file = GgufBuilder()
                               .text("text", "caf\xc3\xa9")
                               .whole("u32", 4'000'000'000U)
                               .value("i8", GgufKind::i8, le(std::int8_t{-3}))
                               .value("u64", GgufKind::u64, le(std::uint64_t{1} << 40))
                               .value("f32", GgufKind::f32, le(0.25F))
                               .value("f64", GgufKind::f64, le(0.125))
                               .value("yes", GgufKind::boolean, le(std::uint8_t{1}))
                               .texts("texts", {"a", "", "bc"})
                               .numbers<std::int16_t>("numbers", GgufKind::i16, {-1, 2})
                               .numbers<std::uint32_t>("layers", GgufKind::u32, {7, 7, 7})
                               .file();
  const GgufMetadata metadata = parse(file).metadata;
  EXPECT_EQ(metadata.text("text"), "caf\xc3\xa9");
  EXPECT_EQ(metadata.whole("u32"), 4'000'000'000U);
  EXPECT_EQ(metadata.number("i8"), -3);
  EXPECT_EQ(metadata.whole("u64"), std::uint64_t{1} << 40);
  EXPECT_EQ(metadata.number("f32"), 0.25);
  EXPECT_EQ(metadata.number("f64"), 0.125);
  EXPECT_TRUE(metadata.boolean_or("yes", false));
  EXPECT_EQ(metadata.texts("texts"), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(metadata.numbers("numbers"), (std::vector<double>{-1, 2}));
  EXPECT_EQ(metadata.whole("layers"), 7U);
  EXPECT_FALSE(metadata.has("absent"));
  EXPECT_EQ(metadata.whole_or("absent", 5), 5U);
}

TEST(GgufHeader, ReportsTheTypeOfWrongMetadata) {
  const std::string file = GgufBuilder()
                               .text("text", "x")
                               .value("f32", GgufKind::f32, le(1.5F))
                               .value("nan", GgufKind::f32, le(std::nanf("")))
                               .value("i8", GgufKind::i8, le(std::int8_t{-3}))
                               .numbers<std::uint32_t>("layers", GgufKind::u32, {7, 8})
                               .numbers<std::uint32_t>("none", GgufKind::u32, {})
                               .file();
  const GgufMetadata metadata = parse(file).metadata;
  const auto error = [](const auto& action) { return error_of<CheckpointError>(action); };
  EXPECT_CONTAINS(error([&] { metadata.whole("text"); }), "must be a number, found \"x\"");
  EXPECT_CONTAINS(error([&] { metadata.whole("f32"); }), "found 1.5 (f32)");
  EXPECT_CONTAINS(error([&] { metadata.number("nan"); }), "must be a number");
  EXPECT_CONTAINS(error([&] { metadata.whole("i8"); }), "found -3 (i8)");
  EXPECT_CONTAINS(error([&] { metadata.whole("layers"); }), "the same for all layers, found a list of 2 u32");
  EXPECT_CONTAINS(error([&] { metadata.whole("none"); }), "found a list of 0 u32");
  EXPECT_CONTAINS(error([&] { metadata.text("i8"); }), "must be a string");
  EXPECT_CONTAINS(error([&] { metadata.texts("layers"); }), "must be a list of strings");
  EXPECT_CONTAINS(error([&] { metadata.numbers("text"); }), "must be a list of numbers");
  EXPECT_CONTAINS(error([&] { metadata.boolean_or("text", true); }), "must be a boolean");
  EXPECT_CONTAINS(error([&] { metadata.whole("absent"); }), "the metadata has no absent");
}

TEST(GgufHeader, RefusesOtherFilesAndVersions) {
  EXPECT_CONTAINS(error_in("GG"), "expected \"GGUF\"");
  EXPECT_CONTAINS(error_in("version https://git-lfs.github.com/spec/v1"), "git lfs pull");
  EXPECT_CONTAINS(error_in(GgufBuilder().file(1)), "version 1, expected 2 or 3");
  EXPECT_CONTAINS(error_in(GgufBuilder().file(4)), "version 4");
  EXPECT_CONTAINS(error_in(GgufBuilder().file(0x03000000)), "big-endian");
  EXPECT_TRUE(parse(GgufBuilder().file(2)).tensors.empty());
}

TEST(GgufHeader, RefusesCountsAndLengthsBeyondTheFile) {
  constexpr std::uint64_t huge = std::uint64_t{1} << 62;
  const std::string start = "GGUF" + le(std::uint32_t{3});
  const std::string padding(64, '\0');
  EXPECT_CONTAINS(error_in(start + le(huge, std::uint64_t{0}) + padding),
                  "announces 4611686018427387904 tensors");
  EXPECT_CONTAINS(error_in(start + le(std::uint64_t{0}, huge) + padding), "metadata values");
  EXPECT_CONTAINS(error_in(start + le(std::uint64_t{0}, std::uint64_t{1}, huge) + padding), "asks for");
  EXPECT_CONTAINS(error_in(GgufBuilder().value("k", GgufKind::array, le(std::uint32_t{10}, huge)).file()),
                  "elements of a list");
  EXPECT_CONTAINS(
      error_in(
          GgufBuilder().value("k", GgufKind::array, le(std::uint32_t{8}, std::uint64_t{2}, huge)).file() +
          padding),
      "asks for");
  EXPECT_CONTAINS(error_in(GgufBuilder().value("k", GgufKind::string, le(huge)).file()), "asks for");
}

TEST(GgufHeader, RefusesUnknownKindsListsOfListsAndKeysGivenTwice) {
  EXPECT_CONTAINS(error_in(GgufBuilder().value("k", static_cast<GgufKind>(13), le(0)).file()), "of kind 13");
  EXPECT_CONTAINS(error_in(GgufBuilder()
                               .value("k", GgufKind::array,
                                      le(std::uint32_t{9}, std::uint64_t{1}) + std::string(32, '\0'))
                               .file()),
                  "list of lists");
  EXPECT_CONTAINS(error_in(GgufBuilder().whole("k", 1).whole("k", 1).file()), "the key k twice");
}

TEST(GgufHeader, RefusesImpossibleTensors) {
  constexpr std::uint64_t huge = std::uint64_t{1} << 62;
  const auto error_with = [](const std::vector<std::uint64_t>& dimensions, std::uint32_t type,
                             std::uint64_t offset = 0) {
    return error_in(GgufBuilder().entry("t", dimensions, type, offset).data(std::string(64, '\0')).file());
  };
  EXPECT_CONTAINS(error_with({}, kF32), "has 0 dimensions");
  EXPECT_CONTAINS(error_with({1, 1, 1, 1, 1}, kF32), "has 5 dimensions");
  EXPECT_CONTAINS(error_with({1}, 4), "type number 4");
  EXPECT_CONTAINS(error_with({33}, kQ8_0), "impossible shape [33]");
  EXPECT_CONTAINS(error_with({0}, kF32), "impossible shape [0]");
  EXPECT_CONTAINS(error_with({1, 0}, kF32), "impossible shape [0, 1]");
  EXPECT_CONTAINS(error_with({huge}, kF32), "impossible shape");
  EXPECT_CONTAINS(error_with({huge, 8}, kF32), "impossible shape");
  EXPECT_CONTAINS(error_with({8, huge, huge, 4}, kF32), "impossible shape");
  EXPECT_CONTAINS(error_with({17}, kF32), "truncated");
  EXPECT_CONTAINS(error_with({1}, kF32, 4), "expected a multiple of 32");
  EXPECT_CONTAINS(error_with({1}, kF32, 64), "truncated");
  EXPECT_CONTAINS(error_with({1}, kF32, ~std::uint64_t{0}), "impossible byte");
  EXPECT_CONTAINS(error_in(GgufBuilder()
                               .entry("a", {16}, kF32, 0)
                               .entry("b", {1}, kF32, 32)
                               .data(std::string(64, '\0'))
                               .file()),
                  "overlaps");
  EXPECT_CONTAINS(error_in(GgufBuilder()
                               .entry("a", {1}, kF32, 0)
                               .entry("a", {1}, kF32, 32)
                               .data(std::string(64, '\0'))
                               .file()),
                  "two tensors a");
}

TEST(GgufHeader, ChecksTheAlignment) {
  EXPECT_CONTAINS(error_in(GgufBuilder().whole("general.alignment", 0).file()), "power of two");
  EXPECT_CONTAINS(error_in(GgufBuilder().whole("general.alignment", 48).file()), "found 48");
  EXPECT_CONTAINS(error_in(GgufBuilder().whole("general.alignment", 1U << 30).file()), "power of two");
  GgufBuilder builder;
  builder.whole("general.alignment", 8).entry("t", {2}, kF32, 8);
  std::string file = builder.file();
  file.resize((file.size() + 7) / 8 * 8 + 16);
  EXPECT_EQ(parse(file).tensors.front().bytes.end, file.size());
}

// Any damage gives an error, or a header whose tensors are within the file.
TEST(GgufHeader, SurvivesEveryTruncationAndManyRandomDamages) {
  const std::string whole = GgufBuilder()
                                .text("general.architecture", "llama")
                                .texts("tokens", {"a", "b"})
                                .numbers<float>("scores", GgufKind::f32, {1, 2})
                                .tensor("a", {4, 32}, "Q4_0", std::string(72, '\1'))
                                .tensor("b", {8}, "F32", std::string(32, '\1'))
                                .file();
  const auto check = [](const std::string& file) {
    try {
      for (const GgufTensor& tensor : parse(file).tensors) ASSERT_LE(tensor.bytes.end, file.size());
    } catch (const CheckpointError&) {
    }
  };
  for (std::size_t size = 0; size < whole.size(); ++size) check(whole.substr(0, size));
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string file = whole;
    for (int damage = 0; damage < 3; ++damage) file[random() % file.size()] = static_cast<char>(random());
    check(file);
  }
}

}  // namespace
}  // namespace tp
