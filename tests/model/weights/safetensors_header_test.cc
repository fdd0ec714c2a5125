#include "model/weights/safetensors/safetensors_header.h"

#include "tests/model/weights/checkpoint_files.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::bytes_of;
using test::error_of;
using test::file_with_header;

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), "m.safetensors");
}

std::string error_in(const std::string& file) {
  return error_of<CheckpointError>([&] { parse(file); });
}

// Returns the error of a file with one tensor "t" with these fields, and `data_size` bytes of data.
std::string error_in_tensor(const std::string& fields, std::size_t data_size = 8) {
  return error_in(file_with_header("{\"t\":{" + fields + "}}", std::string(data_size, '\0')));
}

// Returns a file with two tensors, "a" and "b", of four bytes each, with these offsets.
std::string two_tensors(const std::string& offsets_a, const std::string& offsets_b, std::size_t data_size) {
  const std::string common = R"("dtype":"F32","shape":[1],"data_offsets":)";
  const std::string header = "{\"a\":{" + common + offsets_a + "},\"b\":{" + common + offsets_b + "}}";
  return file_with_header(header, std::string(data_size, '\0'));
}

const std::string valid_tensor = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";

TEST(SafetensorsHeader, ListsTensorsInTheOrderOfTheirData) {
  const std::string file = two_tensors("[4,8]", "[0,4]", 8);
  const SafetensorsHeader header = parse(file);
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.size, file.size() - 8);
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_EQ(header.tensors[0].type.dtype, DType::f32);
  EXPECT_EQ(header.tensors[0].shape, std::vector<std::size_t>{1});
  EXPECT_EQ(header.tensors[0].bytes, (Range{header.size, header.size + 4}));
  EXPECT_EQ(header.tensors[1].bytes, (Range{header.size + 4, header.size + 8}));
}

TEST(SafetensorsHeader, AllowsMetadataPaddingAndNoTensorsAtAll) {
  EXPECT_TRUE(parse(file_with_header("{}")).tensors.empty());
  EXPECT_TRUE(parse(file_with_header(R"({"__metadata__":{"format":"pt","dtype":"x"}}   )")).tensors.empty());
}

TEST(SafetensorsHeader, AllowsTensorsWithoutElements) {
  const auto header = parse(file_with_header(
      R"({"z":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},"y":{"dtype":"F32","shape":[],"data_offsets":[0,4]},
          "w":{"dtype":"F16","shape":[18446744073709551615,0,18446744073709551615],"data_offsets":[0,0]}})",
      "1234"));
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_TRUE(header.tensors[0].bytes.empty());
}

TEST(SafetensorsHeader, KnowsTypesThatCannotBeRead) {
  for (const std::string type : {"F64", "I64", "U64"}) {
    const auto file = file_with_header(
        R"({"t":{"dtype":")" + type + R"(","shape":[2],"data_offsets":[0,16]}})", std::string(16, '\0'));
    EXPECT_FALSE(parse(file).tensors[0].type.dtype.has_value());
  }
  for (const std::string type : {"BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"}) {
    const auto file =
        file_with_header(R"({"t":{"dtype":")" + type + R"(","shape":[3],"data_offsets":[0,3]}})", "123");
    EXPECT_FALSE(parse(file).tensors[0].type.dtype.has_value());
  }
  const auto file = file_with_header(R"({"t":{"dtype":"F4","shape":[6],"data_offsets":[0,3]}})", "123");
  EXPECT_EQ(parse(file).tensors[0].type.bits, 4u);
}

TEST(SafetensorsHeader, RefusesAFileThatIsTooShortForALength) {
  EXPECT_CONTAINS(error_in(""), "the file has 0 bytes");
  EXPECT_CONTAINS(error_in("1234567"), "the file has 7 bytes");
}

TEST(SafetensorsHeader, RefusesImpossibleLengths) {
  const auto with_length = [](std::uint64_t length) {
    return error_in(bytes_of(std::vector<std::uint64_t>{length}) + "{}");
  };
  EXPECT_CONTAINS(with_length(3), "truncated");
  EXPECT_CONTAINS(with_length(100'000'000), "truncated");
  EXPECT_CONTAINS(with_length(100'000'001), "not a safetensors file");
  EXPECT_CONTAINS(with_length(UINT64_MAX), "not a safetensors file");
  EXPECT_CONTAINS(with_length(UINT64_MAX - 7), "not a safetensors file");
  EXPECT_CONTAINS(with_length(0), "not a JSON object");
}

TEST(SafetensorsHeader, RejectsHeadersThatAreNotJsonObjects) {
  for (const std::string text : {"[]", "null", "1", "\"a\"", " {}", "\xef\xbb\xbf{}", "hello"}) {
    EXPECT_CONTAINS(error_in(file_with_header(text)), "not a JSON object");
  }
  for (const std::string text :
       {"{", "{\"", "{} {}", "{},", "{\"a\"}", "{'a':1}", "{\"\xff\":{}}", "{\"\\ud800\":{}}"}) {
    EXPECT_CONTAINS(error_in(file_with_header(text)), "not valid JSON");
  }
}

TEST(SafetensorsHeader, DoesNotStopAtAZeroByte) {
  EXPECT_CONTAINS(error_in(file_with_header(std::string("{}\0 hidden", 10))), "not a JSON object");
}

TEST(SafetensorsHeader, RefusesKeysThatAreThereTwice) {
  EXPECT_CONTAINS(error_in_tensor(valid_tensor + "},\"t\":{" + valid_tensor), "the key t twice");
  EXPECT_CONTAINS(error_in_tensor(valid_tensor + R"(,"shape":[2])"), "the key shape twice");
  EXPECT_CONTAINS(error_in(file_with_header(R"({"__metadata__":{},"__metadata__":{}})")),
                  "__metadata__ twice");
  EXPECT_CONTAINS(error_in(file_with_header(R"({"__metadata__":{"a":"1","\u0061":"2"}})")),
                  "the key a twice");
}

TEST(SafetensorsHeader, RejectsTensorsThatAreNotObjects) {
  for (const std::string value : {"1", "-1", "1.5", "\"x\"", "null", "true", "[]", "[[]]"}) {
    EXPECT_CONTAINS(error_in(file_with_header("{\"t\":" + value + "}")), "t in the header must be an object");
  }
}

TEST(SafetensorsHeader, RefusesMetadataThatIsNotStrings) {
  EXPECT_CONTAINS(error_in(file_with_header(R"({"__metadata__":[]})")), "must be an object");
  for (const std::string value : {"1", "null", "{}", "[]", "false"}) {
    EXPECT_CONTAINS(error_in(file_with_header("{\"__metadata__\":{\"a\":" + value + "}}")),
                    "must be a string");
  }
}

TEST(SafetensorsHeader, RefusesMissingAndUnknownFields) {
  EXPECT_CONTAINS(error_in_tensor(""), "must have a dtype, a shape and data_offsets");
  EXPECT_CONTAINS(error_in_tensor(R"("dtype":"F32","shape":[2])"), "must have a dtype");
  EXPECT_CONTAINS(error_in_tensor(R"("shape":[2],"data_offsets":[0,8])"), "must have a dtype");
  EXPECT_CONTAINS(error_in_tensor(valid_tensor + R"(,"scale":1)"), "has a field scale");
}

TEST(SafetensorsHeader, RefusesDtypesThatAreUnknownOrNoStrings) {
  EXPECT_CONTAINS(error_in_tensor(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])"), "unknown dtype F31");
  EXPECT_CONTAINS(error_in_tensor(R"("dtype":"f32","shape":[2],"data_offsets":[0,8])"), "unknown dtype f32");
  for (const std::string value : {"32", "null", "[]", "{}", "[\"F32\"]"}) {
    EXPECT_CONTAINS(error_in_tensor("\"dtype\":" + value),
                    "dtype of tensor t in the header must be a string");
  }
}

TEST(SafetensorsHeader, RefusesShapesAndOffsetsThatAreNotWholeNumbers) {
  for (const std::string field : {"shape", "data_offsets"}) {
    for (const std::string value :
         {"2", "null", "\"2\"", "{}", "[-1]", "[-0]", "[1.0]", "[2e0]", "[\"2\"]", "[[2]]", "[{}]", "[true]",
          "[null]", "[18446744073709551616]", "[1e400]", "[-9223372036854775809]"}) {
      const std::string error = error_in_tensor("\"" + field + "\":" + value);
      const bool explained =
          error.find("must be a list") != error.npos || error.find("not valid JSON") != error.npos;
      EXPECT_TRUE(explained) << value << ": " << error;
    }
  }
}

TEST(SafetensorsHeader, RefusesOffsetsThatAreNotTwoNumbers) {
  EXPECT_CONTAINS(error_in_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[])"), "has 0 data_offsets");
  EXPECT_CONTAINS(error_in_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), "has 1 data_offsets");
  EXPECT_CONTAINS(error_in_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"),
                  "more than 2 numbers");
}

TEST(SafetensorsHeader, RefusesTensorsThatDoNotLieInTheFile) {
  const auto with_offsets = [](const std::string& offsets) {
    return error_in_tensor(R"("dtype":"F32","shape":[2],"data_offsets":)" + offsets);
  };
  EXPECT_CONTAINS(with_offsets("[8,0]"), "begins at byte 8 but ends at byte 0");
  EXPECT_CONTAINS(with_offsets("[1,9]"), "truncated");
  EXPECT_CONTAINS(with_offsets("[8,16]"), "truncated");
  EXPECT_CONTAINS(with_offsets("[18446744073709551607,18446744073709551615]"), "truncated");
  EXPECT_CONTAINS(with_offsets("[0,18446744073709551615]"), "truncated");
}

TEST(SafetensorsHeader, RejectsShapesThatDifferFromTheDatasSize) {
  const auto with_shape = [](const std::string& shape) {
    return error_in_tensor(R"("dtype":"F32","data_offsets":[0,8],"shape":)" + shape);
  };
  EXPECT_CONTAINS(with_shape("[3]"), "has 8 bytes, expected 12 for [3] of F32");
  EXPECT_CONTAINS(with_shape("[]"), "expected 4");
  EXPECT_CONTAINS(with_shape("[2,0]"), "expected 0");
  EXPECT_CONTAINS(with_shape("[4294967296,4294967296]"), "impossible shape");
  EXPECT_CONTAINS(with_shape("[9223372036854775809,2]"), "impossible shape");
  EXPECT_CONTAINS(with_shape("[4611686018427387906]"), "impossible shape");  // times 4 bytes: 8, modulo 2^64
  EXPECT_CONTAINS(error_in_tensor(R"("dtype":"F4","data_offsets":[0,1],"shape":[3])", 1),
                  "expected 1 for [3] of F4");
}

TEST(SafetensorsHeader, RefusesTooManyDimensions) {
  std::string shape = "1";
  for (int i = 0; i < 64; ++i) shape += ",1";
  EXPECT_CONTAINS(error_in_tensor("\"shape\":[" + shape + "]"), "more than 64 numbers");
}

TEST(SafetensorsHeader, RefusesTensorsThatOverlapOrLeaveHoles) {
  EXPECT_EQ(parse(two_tensors("[0,4]", "[4,8]", 8)).tensors.size(), 2u);
  EXPECT_CONTAINS(error_in(two_tensors("[0,4]", "[2,6]", 6)), "overlaps");
  EXPECT_CONTAINS(error_in(two_tensors("[0,4]", "[0,4]", 4)), "overlaps");
  EXPECT_CONTAINS(error_in(two_tensors("[0,4]", "[5,9]", 9)), "bytes 4 to 5 of the data, before tensor b,");
  EXPECT_CONTAINS(error_in(two_tensors("[1,5]", "[5,9]", 9)), "bytes 0 to 1 of the data");
  EXPECT_CONTAINS(error_in(two_tensors("[0,4]", "[4,8]", 9)), "the tensors end at byte 8 of the data");
  EXPECT_CONTAINS(error_in(file_with_header("{}", "x")), "the tensors end at byte 0");
}

TEST(SafetensorsHeader, RefusesDeepNesting) {
  const std::string objects = [] {
    std::string text;
    for (int i = 0; i < 1'000'000; ++i) text += "{\"a\":";
    return text;
  }();
  EXPECT_CONTAINS(error_in(file_with_header(objects)), "field a");
  EXPECT_CONTAINS(error_in(file_with_header("{\"a\":" + std::string(1'000'000, '['))), "must be an object");
  EXPECT_CONTAINS(error_in_tensor("\"shape\":" + std::string(1'000'000, '[')), "must be a list");
}

TEST(SafetensorsHeader, ShortensHostileNamesInItsErrors) {
  const std::string error = error_in(file_with_header("{\"" + std::string(1'000'000, 'x') + "\\u001b\":1}"));
  EXPECT_LT(error.size(), 500u);
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
}

TEST(SafetensorsHeader, RefusesAFileCutAnywhere) {
  const std::string file = test::safetensors_file(
      {test::counting_tensor("model.norm.weight", {3}), {"h.0.attn.bias", "BOOL", {5}, "12345"}});
  EXPECT_EQ(parse(file).tensors.size(), 2u);
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_NE(error_in(file.substr(0, size)), "") << size;
}

TEST(SafetensorsHeader, SurvivesDamagedBytes) {
  const std::string file =
      test::safetensors_file({test::counting_tensor("a", {2, 3}), test::counting_tensor("b", {4})});
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = file;
    for (unsigned flips = 1 + random() % 3; flips > 0; --flips) {
      damaged[random() % (file.size() - 40)] = static_cast<char>(random());  // 40: the data
    }
    try {
      const SafetensorsHeader header = parse(damaged);
      for (const StoredTensor& tensor : header.tensors) {
        ASSERT_LE(tensor.bytes.begin, tensor.bytes.end);
        ASSERT_LE(tensor.bytes.end, damaged.size());
      }
    } catch (const CheckpointError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace tp
