#include "model/weights/safetensors/safetensors_checkpoint.h"

#include "model/weights/source/widen.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/model/weights/read_tensor.h"
#include "tests/model/weights/resident_memory.h"

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::counting_tensor;
using test::error_of;
using test::read_slice;
using test::resident_file_bytes;
using test::safetensors_file;
using test::TemporaryDirectory;
using test::TestTensor;
using Names = std::vector<std::string>;

// A checkpoint with one file in its own directory.
class OneFile {
 public:
  explicit OneFile(const std::vector<TestTensor>& tensors) {
    directory_.write("model.safetensors", safetensors_file(tensors));
    checkpoint_ = SafetensorsCheckpoint::open(directory_.path());
  }
  const SafetensorsCheckpoint* operator->() const { return checkpoint_.get(); }
  const SafetensorsCheckpoint& operator*() const { return *checkpoint_; }

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<SafetensorsCheckpoint> checkpoint_;
};

std::string open_error(const TemporaryDirectory& directory) {
  return error_of<CheckpointError>([&] { SafetensorsCheckpoint::open(directory.path()); });
}

Range random_range(std::size_t total, std::mt19937& random) {
  const std::size_t a = random() % (total + 1);
  const std::size_t b = random() % (total + 1);
  return {std::min(a, b), std::max(a, b)};
}

TEST(SafetensorsCheckpoint, KnowsItsTensors) {
  const OneFile checkpoint(
      {counting_tensor("b", {2, 3}), {"a", "BF16", {2}, "1234"}, {"c", "F16", {}, "12"}});
  EXPECT_EQ(checkpoint->names(), (Names{"a", "b", "c"}));
  EXPECT_TRUE(checkpoint->contains("a"));
  EXPECT_FALSE(checkpoint->contains("d"));
  EXPECT_EQ(checkpoint->dtype("a"), DType::bf16);
  EXPECT_EQ(checkpoint->dtype("b"), DType::f32);
  EXPECT_EQ(checkpoint->dtype("c"), DType::f16);
  EXPECT_EQ(checkpoint->stored_bytes(), 24u + 4u + 2u);
}

TEST(SafetensorsCheckpoint, SlicesEqualThePartsOfTheWhole) {
  std::mt19937 random(11);
  const struct {
    const char* name;
    DType type;
  } types[] = {{"F32", DType::f32}, {"F16", DType::f16}, {"BF16", DType::bf16}};
  for (int trial = 0; trial < 60; ++trial) {
    const auto [type_name, type] = types[trial % 3];
    // Covers rows that are copied, and rows too short for that.
    const MatrixShape shape{1 + random() % 20, 1 + random() % 700};
    // Random bytes include subnormals, infinities and NaNs. The preceding tensor makes the data unaligned.
    std::string bytes(shape.size() * size_of(type), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const OneFile checkpoint(
        {{"odd", "U8", {3}, "123"}, {"w", type_name, {shape.rows, shape.columns}, bytes}});

    std::vector<float> whole(shape.size());
    widen(type, reinterpret_cast<const std::byte*>(bytes.data()), whole.size(), whole.data());
    for (int i = 0; i < 20; ++i) {
      const TensorSlice slice{random_range(shape.rows, random), random_range(shape.columns, random)};
      const std::size_t stride = slice.columns.size() + random() % 3;
      std::vector<float> part(slice.rows.size() * stride, -1.0f);
      checkpoint->read("w", shape, slice, {part.data(), slice.rows.size(), slice.columns.size(), stride});
      const StoredRows stored = checkpoint->stored_rows("w", shape, slice).value();
      ASSERT_EQ(stored.type, type);
      ASSERT_EQ(stored.rows, slice.rows.size());
      ASSERT_EQ(stored.columns, slice.columns.size());
      for (std::size_t row = 0; row < slice.rows.size(); ++row) {
        const float* expected = whole.data() + (slice.rows.begin + row) * shape.columns + slice.columns.begin;
        const std::size_t size = slice.columns.size();
        ASSERT_TRUE(size == 0 || std::memcmp(&part[row * stride], expected, size * sizeof(float)) == 0);
        for (std::size_t j = size; j < stride; ++j) ASSERT_EQ(part[row * stride + j], -1.0f);
        std::vector<float> in_place(size);
        widen(stored.type, stored.data + row * stored.stride, size, in_place.data());
        ASSERT_TRUE(size == 0 || std::memcmp(in_place.data(), expected, size * sizeof(float)) == 0);
      }
    }
  }
}

// Mapping and unmapping every page of a large model takes longer than copying it, and counts as memory.
TEST(SafetensorsCheckpoint, DoesNotMapThePagesOfRowsAndColumns) {
  const MatrixShape shape{256, 16384};
  std::string bytes(shape.size() * sizeof(std::uint16_t), '\0');
  std::mt19937 random(1);
  for (char& byte : bytes) byte = static_cast<char>(random());
  const OneFile checkpoint({{"w", "BF16", {shape.rows, shape.columns}, bytes}});
  const std::size_t before = resident_file_bytes();
  for (const Range columns : {Range{0, shape.columns}, Range{0, 8192}, Range{8192, 16384}, Range{5, 300}}) {
    for (std::size_t first = 0; first < shape.rows; first += 16) {
      const StoredRows stored = checkpoint->stored_rows("w", shape, {{first, first + 16}, columns}).value();
      for (std::size_t row = 0; row < 16; ++row) {
        const char* const expected = bytes.data() + ((first + row) * shape.columns + columns.begin) * 2;
        ASSERT_EQ(std::memcmp(stored.data + row * stored.stride, expected, columns.size() * 2), 0);
      }
    }
  }
  EXPECT_LT(resident_file_bytes(), before + bytes.size() / 4);
}

TEST(SafetensorsCheckpoint, ReadsSlicesOfAnySize) {
  const MatrixShape shape{1500, 1024};  // 6 MB: more than is copied at once
  const OneFile checkpoint({counting_tensor("w", {shape.rows, shape.columns})});
  for (const TensorSlice& slice :
       {TensorSlice::whole(shape), TensorSlice{{0, 1500}, {1, 1024}}, TensorSlice{{7, 1500}, {3, 5}}}) {
    const std::vector<float> part = read_slice(*checkpoint, "w", shape, slice);
    for (std::size_t i = 0; i < part.size(); ++i) {
      const std::size_t row = slice.rows.begin + i / slice.columns.size();
      const std::size_t column = slice.columns.begin + i % slice.columns.size();
      ASSERT_EQ(part[i], static_cast<float>(row * shape.columns + column)) << row << ", " << column;
    }
  }
}

TEST(SafetensorsCheckpoint, SaysThatAFileWasMadeShorterWhileItWasRead) {
  const TemporaryDirectory directory;
  const MatrixShape shape{64, 1024};
  const auto path = directory.write("model.safetensors",
                                    safetensors_file({counting_tensor("w", {shape.rows, shape.columns})}));
  const auto checkpoint = SafetensorsCheckpoint::open(directory.path());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 10);
  const auto read_rows = [&](Range rows, Range columns) {
    return error_of<CheckpointError>([&] { checkpoint->stored_rows("w", shape, {rows, columns}); });
  };
  checkpoint->stored_rows("w", shape, {{0, 63}, {0, 1024}});
  for (const Range columns : {Range{0, 1024}, Range{512, 1024}})
    EXPECT_CONTAINS(read_rows({48, 64}, columns), "model.safetensors: the file ends at byte ");
}

TEST(SafetensorsCheckpoint, ReadsAVectorAsAMatrixOfOneRow) {
  const OneFile checkpoint(
      {counting_tensor("v", {4}), counting_tensor("m", {1, 4}), counting_tensor("s", {})});
  for (const std::string name : {"v", "m"}) {
    checkpoint->expect(name, {1, 4}, "hidden_size");
    EXPECT_EQ(read_slice(*checkpoint, name, {1, 4}, {{0, 1}, {1, 3}}), (std::vector<float>{1, 2}));
    EXPECT_NE(error_of<CheckpointError>([&] { checkpoint->expect(name, {4, 1}, ""); }), "");
  }
  EXPECT_EQ(read_slice(*checkpoint, "s", {1, 1}, {{0, 1}, {0, 1}}), std::vector<float>{0});
}

TEST(SafetensorsCheckpoint, SaysWhichShapeWasExpectedAndWhy) {
  const OneFile checkpoint(
      {counting_tensor("down_proj.weight", {4, 11}), counting_tensor("norm.weight", {4})});
  EXPECT_EQ(
      error_of<CheckpointError>([&] {
        checkpoint->expect("down_proj.weight", {4, 14}, "hidden_size, intermediate_size");
      }),
      "model.safetensors: down_proj.weight is [4, 11], expected [4, 14] (hidden_size, intermediate_size)");
  EXPECT_EQ(error_of<CheckpointError>([&] {
              checkpoint->expect("norm.weight", {1, 5}, "hidden_size");
            }),
            "model.safetensors: norm.weight is [4], expected [5] (hidden_size)");
  EXPECT_EQ(error_of<CheckpointError>([&] {
              read_slice(*checkpoint, "norm.weight", {2, 2}, {{0, 2}, {0, 2}});
            }),
            "model.safetensors: norm.weight is [4], expected [2, 2]");
}

TEST(SafetensorsCheckpoint, TakesTensorsOfThreeDimensionsForMatricesOfAllTheirRows) {
  const OneFile checkpoint({counting_tensor("experts", {2, 2, 2}), counting_tensor("one", {1, 1, 4})});
  checkpoint->expect("experts", {4, 2}, "x");
  checkpoint->expect("experts", {2, 4}, "x");
  checkpoint->expect("one", {1, 4}, "");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] {
                    checkpoint->expect("experts", {6, 2}, "x");
                  }),
                  "experts is [2, 2, 2], expected [2, 3, 2] (x)");
  EXPECT_NE(error_of<CheckpointError>([&] { checkpoint->expect("one", {4, 1}, ""); }), "");
}

TEST(SafetensorsCheckpoint, SaysThatATensorIsMissingAndWhichOneIsSimilar) {
  const OneFile checkpoint(
      {counting_tensor("model.layers.0.mlp.up_proj.weight", {1}), counting_tensor("x", {1})});
  const auto text = error_of<CheckpointError>([&] {
    checkpoint->expect("model.layers.0.mlp.up.weight", {1, 1}, "");
  });
  EXPECT_CONTAINS(text, "there is no tensor model.layers.0.mlp.up.weight in model.safetensors");
  EXPECT_CONTAINS(text, "(the most similar one is model.layers.0.mlp.up_proj.weight)");
  const auto other = error_of<CheckpointError>([&] { checkpoint->dtype("lm_head.weight"); });
  EXPECT_CONTAINS(other, "no tensor lm_head.weight in model.safetensors; config.json and");
  EXPECT_NE(error_of<CheckpointError>([&] { read_slice(*checkpoint, "y", {1, 1}, {{0, 1}, {0, 1}}); }), "");
  EXPECT_NE(error_of<CheckpointError>([&] { checkpoint->done_with("y"); }), "");
}

TEST(SafetensorsCheckpoint, ComplainsOfATypeOnlyWhenItIsRead) {
  const OneFile checkpoint(
      {counting_tensor("w", {1}), {"mask", "BOOL", {1, 1, 2, 2}, "1234"}, {"i", "I64", {1}, "12345678"}});
  EXPECT_EQ(read_slice(*checkpoint, "w", {1, 1}, {{0, 1}, {0, 1}}), std::vector<float>{0});
  for (const auto& error :
       {error_of<CheckpointError>([&] {
          checkpoint->expect("i", {1, 1}, "");
        }),
        error_of<CheckpointError>([&] { checkpoint->dtype("i"); }), error_of<CheckpointError>([&] {
          read_slice(*checkpoint, "i", {1, 1}, {{0, 1}, {0, 1}});
        })}) {
    EXPECT_CONTAINS(error, "model.safetensors: i has the type I64, expected F32, F16, BF16, or F8_E4M3 with");
  }
}

TEST(SafetensorsCheckpoint, RefusesSlicesAndOutputsThatDoNotFit) {
  const OneFile checkpoint({counting_tensor("w", {2, 3})});
  std::vector<float> out(100);
  const auto error_with = [&](const TensorSlice& slice, std::size_t rows, std::size_t columns) {
    return error_of<CheckpointError>([&] {
      checkpoint->read("w", {2, 3}, slice, {out.data(), rows, columns});
    });
  };
  EXPECT_CONTAINS(error_with({{0, 3}, {0, 3}}, 3, 3), "it has only [2, 3]");
  EXPECT_CONTAINS(error_with({{0, 2}, {1, 4}}, 2, 3), "it has only [2, 3]");
  EXPECT_CONTAINS(error_with({{1, 0}, {0, 3}}, 1, 3), "it has only [2, 3]");
  EXPECT_CONTAINS(error_with({{0, 2}, {0, 2}}, 2, 3), "[2, 2] elements of w into [2, 3]");
  EXPECT_EQ(checkpoint->bytes_read(), 0u);
}

TEST(SafetensorsCheckpoint, CountsReadBytes) {
  const OneFile checkpoint(
      {counting_tensor("w", {2, 3}), {"h", "BF16", {4}, "12345678"}, counting_tensor("none", {0, 3})});
  EXPECT_EQ(checkpoint->unread(), (Names{"h", "w"}));
  checkpoint->expect("w", {2, 3}, "");
  EXPECT_EQ(checkpoint->bytes_read(), 0u);
  read_slice(*checkpoint, "w", {2, 3}, {{0, 2}, {1, 3}});
  EXPECT_EQ(checkpoint->unread(), Names{"h"});
  read_slice(*checkpoint, "h", {1, 4}, {{0, 1}, {0, 4}});
  EXPECT_TRUE(checkpoint->unread().empty());
  EXPECT_EQ(checkpoint->bytes_read(), 16u + 8u);
  read_slice(*checkpoint, "w", {2, 3}, {{0, 2}, {0, 1}});
  EXPECT_EQ(checkpoint->bytes_read(), 24u + 8u);
}

TEST(SafetensorsCheckpoint, IsReadByThreadsAtOnce) {
  const OneFile checkpoint({counting_tensor("w", {64, 64})});
  const std::vector<float> whole = read_slice(*checkpoint, "w", {64, 64}, {{0, 64}, {0, 64}});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 100; ++repeat) {
        ASSERT_EQ(read_slice(*checkpoint, "w", {64, 64}, {{0, 64}, {0, 64}}), whole);
        checkpoint->done_with("w");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(checkpoint->bytes_read(), 401u * 64 * 64 * 4);
}

// A directory with the files "1.safetensors" and "2.safetensors" of these tensors, and this weight map.
void write_two(const TemporaryDirectory& directory, const std::vector<TestTensor>& first,
               const std::vector<TestTensor>& second, const std::string& weight_map) {
  directory.write("1.safetensors", safetensors_file(first));
  directory.write("2.safetensors", safetensors_file(second));
  directory.write("model.safetensors.index.json", "{\"weight_map\":{" + weight_map + "}}");
}

TEST(SafetensorsCheckpoint, ReadsSeveralFilesByTheirIndex) {
  const TemporaryDirectory directory;
  write_two(directory, {counting_tensor("a", {2})},
            {counting_tensor("b", {3}), counting_tensor("extra", {1})},
            R"("a":"1.safetensors","b":"2.safetensors")");
  const auto checkpoint = SafetensorsCheckpoint::open(directory.path());
  EXPECT_EQ(checkpoint->names(), (Names{"a", "b", "extra"}));
  EXPECT_EQ(checkpoint->stored_bytes(), 24u);
  EXPECT_EQ(read_slice(*checkpoint, "b", {1, 3}, {{0, 1}, {1, 3}}), (std::vector<float>{1, 2}));
  EXPECT_CONTAINS(error_of<CheckpointError>([&] {
                    checkpoint->expect("b", {1, 4}, "n");
                  }),
                  "2.safetensors: b is [3], expected [4] (n)");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { checkpoint->dtype("c"); }),
                  "no tensor c in its 2 files, 1.safetensors to 2.safetensors");
}

TEST(SafetensorsCheckpoint, RefusesAnIndexThatIsWrong) {
  const TemporaryDirectory directory;
  write_two(directory, {counting_tensor("a", {2})}, {counting_tensor("b", {3})},
            R"("a":"2.safetensors","b":"1.safetensors")");
  EXPECT_CONTAINS(open_error(directory),
                  "2.safetensors: tensor a is not in this file, where model.safetensors.index.json says");
  write_two(directory, {counting_tensor("a", {2})}, {counting_tensor("b", {3})},
            R"("a":"1.safetensors","b":"2.safetensors","c":"2.safetensors")");
  EXPECT_CONTAINS(open_error(directory), "2.safetensors: tensor c is not in this file");
}

// The files were saved over others. The index names the tensors that still count.
TEST(SafetensorsCheckpoint, HasOfATensorInTwoFilesTheOneThatTheIndexNames) {
  const TemporaryDirectory directory;
  const TestTensor one{"a", "F32", {1}, test::bytes_of<float>({1})};
  const TestTensor two{"a", "F32", {1}, test::bytes_of<float>({2})};
  for (const std::string file : {"1", "2"}) {
    write_two(directory, {one, counting_tensor("b", {3})}, {two, counting_tensor("c", {3})},
              R"("b":"1.safetensors","c":"2.safetensors","a":")" + file + ".safetensors\"");
    const auto checkpoint = SafetensorsCheckpoint::open(directory.path());
    EXPECT_EQ(read_slice(*checkpoint, "a", {1, 1}, {{0, 1}, {0, 1}}), std::vector<float>{std::stof(file)});
    EXPECT_EQ(checkpoint->stored_bytes(), 28U);
  }
}

TEST(SafetensorsCheckpoint, RefusesATensorThatTwoFilesHoldAndTheIndexDoesNotName) {
  const TemporaryDirectory directory;
  write_two(directory, {counting_tensor("a", {2})}, {counting_tensor("a", {2}), counting_tensor("b", {3})},
            R"("b":"2.safetensors")");
  directory.write("1.safetensors", safetensors_file({counting_tensor("a", {2}), counting_tensor("c", {2})}));
  directory.write("model.safetensors.index.json",
                  R"({"weight_map":{"c":"1.safetensors","b":"2.safetensors"}})");
  EXPECT_CONTAINS(open_error(directory), "2.safetensors: tensor a is in 1.safetensors too");
}

TEST(SafetensorsCheckpoint, SaysThatAFileOfTheIndexIsMissing) {
  const TemporaryDirectory directory;
  write_two(directory, {counting_tensor("a", {2})}, {}, R"("a":"1.safetensors","b":"3.safetensors")");
  EXPECT_CONTAINS(open_error(directory), "3.safetensors: no such file");
}

TEST(SafetensorsCheckpoint, NamesTheDamagedFile) {
  const TemporaryDirectory directory;
  write_two(directory, {counting_tensor("a", {2})}, {counting_tensor("b", {2})},
            R"("a":"1.safetensors","b":"2.safetensors")");
  std::filesystem::resize_file(directory.path() / "2.safetensors",
                               std::filesystem::file_size(directory.path() / "2.safetensors") - 1);
  EXPECT_CONTAINS(open_error(directory), "2.safetensors: tensor b ends at byte 8 of the data");
}

TEST(SafetensorsCheckpoint, FollowsLinksAsTheHuggingFaceCacheMakesThem) {
  const TemporaryDirectory blobs, directory;
  blobs.write("0123abcd", safetensors_file({counting_tensor("a", {2})}));
  std::filesystem::create_symlink(blobs.path() / "0123abcd", directory.path() / "model.safetensors");
  EXPECT_EQ(SafetensorsCheckpoint::open(directory.path())->names(), Names{"a"});
}

TEST(SafetensorsCheckpoint, HasAFingerprintOfItsHeaders) {
  const TestTensor ones{"a", "F32", {1}, "1111"};
  const TestTensor twos{"a", "F32", {1}, "2222"};
  const TestTensor renamed{"b", "F32", {1}, "1111"};
  const TestTensor retyped{"a", "I32", {1}, "1111"};
  const std::uint64_t fingerprint = OneFile({ones})->fingerprint();
  EXPECT_EQ(fingerprint, OneFile({ones})->fingerprint());
  EXPECT_EQ(fingerprint, OneFile({twos})->fingerprint()) << "ModelIdentity adds the data";
  EXPECT_NE(fingerprint, OneFile({renamed})->fingerprint());
  EXPECT_NE(fingerprint, OneFile({retyped})->fingerprint());
}

}  // namespace
}  // namespace tp
