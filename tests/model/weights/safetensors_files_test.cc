#include "model/weights/safetensors/safetensors_files.h"

#include "model/files/file_notices.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <filesystem>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::error_of;
using test::TemporaryDirectory;
using Names = std::vector<std::string>;

constexpr const char* index_name = "model.safetensors.index.json";

std::string error_in(const std::filesystem::path& directory) {
  return error_of<CheckpointError>([&] { find_safetensors_files(directory); });
}

// The error of a directory with this index.
std::string error_in_index(std::string_view index) {
  const TemporaryDirectory directory;
  directory.write(index_name, index);
  return error_in(directory.path());
}

TEST(SafetensorsFiles, AreTheSingleFileIfThereIsOne) {
  const TemporaryDirectory directory;
  directory.write("model.safetensors", "x");
  directory.write(index_name, "not even json");
  const SafetensorsFiles files = find_safetensors_files(directory.path());
  EXPECT_EQ(files.names, Names{"model.safetensors"});
  EXPECT_TRUE(files.file_of.empty());
}

TEST(SafetensorsFiles, AreTheIndexsFilesEachOnce) {
  const TemporaryDirectory directory;
  directory.write(index_name, R"({"metadata":{"total_size":12,"a":"x"},"weight_map":{"c":"2.safetensors",
                                 "a":"2.safetensors","b":"1.safetensors"}})");
  const SafetensorsFiles files = find_safetensors_files(directory.path());
  EXPECT_EQ(files.names, (Names{"1.safetensors", "2.safetensors"}));
  EXPECT_EQ(files.file_of.at("a"), "2.safetensors");
  EXPECT_EQ(files.file_of.size(), 3u);
}

TEST(SafetensorsFiles, RefuseAnIndexWithoutAWeightMap) {
  for (const std::string text : {"{}", "[]", "null", R"({"weight_map":[]})", R"({"weight_map":{}})"}) {
    EXPECT_CONTAINS(error_in_index(text), "expected an object \"weight_map\"");
  }
  EXPECT_CONTAINS(error_in_index(R"({"weight_map":{"a":1}})"), "the file of tensor a must be a string");
}

TEST(SafetensorsFiles, RejectAnIndexThatIsNotJson) {
  EXPECT_CONTAINS(error_in_index("{\"weight_map\":"), "not valid JSON");
  EXPECT_CONTAINS(error_in_index(""), "the file is empty");
  EXPECT_CONTAINS(error_in_index(std::string(1'000'000, '[')), "nested deeper than 64 levels");
}

TEST(SafetensorsFiles, TakeTheLastOfTheFilesThatAnIndexNamesForATensor) {
  take_file_notices();
  const SafetensorsFiles files = parse_safetensors_index(
      R"({"metadata":{"a":1},"weight_map":{"a":"1.safetensors","a":"2.safetensors"}})", "index");
  EXPECT_EQ(files.file_of.at("a"), "2.safetensors");
  EXPECT_EQ(take_file_notices(), Names{"index: an object has the key a twice; its last value counts"});
}

TEST(SafetensorsFiles, RefuseFilesOutsideTheDirectory) {
  for (const std::string name : {"../other.safetensors", "/etc/passwd", "a/b.safetensors", "..", ".", "",
                                 "a\\\\b", "model.safetensors\\u0000.txt"}) {
    EXPECT_CONTAINS(error_in_index(R"({"weight_map":{"a":")" + name + "\"}}"),
                    "a file in the same directory");
  }
}

TEST(SafetensorsFiles, ReportAMissingOrInvalidDirectory) {
  const TemporaryDirectory directory;
  EXPECT_CONTAINS(error_in(directory.path() / "none"), "no such directory");
  EXPECT_CONTAINS(error_in(directory.write("file.safetensors", "x")), "give the directory it is in");
}

TEST(SafetensorsFiles, SayHowToConvertPyTorchWeights) {
  const TemporaryDirectory directory;
  directory.write("pytorch_model.bin", "x");
  directory.write("config.json", "{}");
  const std::string error = error_in(directory.path());
  EXPECT_CONTAINS(error, "PyTorch weights (pytorch_model.bin)");
  EXPECT_CONTAINS(error, "safe_serialization=True");
  EXPECT_CONTAINS(error, directory.path().string());
}

TEST(SafetensorsFiles, SayHowToRunAGgufModel) {
  const TemporaryDirectory directory;
  directory.write("b.Q4_0.gguf", "x");
  directory.write("a.Q8_0.gguf", "x");
  EXPECT_CONTAINS(error_in(directory.path()),
                  "but a.Q8_0.gguf; to run the GGUF model, give the path of its file");
}

TEST(SafetensorsFiles, SayThatTheIndexIsMissing) {
  const TemporaryDirectory directory;
  directory.write("model-00001-of-00002.safetensors", "x");
  directory.write("pytorch_model.bin", "x");
  EXPECT_CONTAINS(error_in(directory.path()),
                  "but model-00001-of-00002.safetensors; if the checkpoint is in several");
}

TEST(SafetensorsFiles, SayThatALinkHasLostItsTarget) {
  const TemporaryDirectory directory;
  std::filesystem::create_symlink("../blobs/gone", directory.path() / "model.safetensors");
  EXPECT_CONTAINS(error_in(directory.path()),
                  "model.safetensors: expected a file, found a link to ../blobs/gone, which does not exist");
  const TemporaryDirectory parts;
  parts.write(index_name, R"({"weight_map":{"a":"1.safetensors"}})");
  std::filesystem::create_symlink("gone", parts.path() / "1.safetensors");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { SafetensorsCheckpoint::open(parts.path()); }),
                  "1.safetensors: expected a file, found a link to gone");
  const TemporaryDirectory text;
  text.write("model.safetensors", "../blobs/gone");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { SafetensorsCheckpoint::open(text.path()); }),
                  "expected a safetensors file, found the text of a link (../blobs/gone)");
}

TEST(SafetensorsFiles, SayThatTheyAreOfAnAdapterOrOfTheAuthorsOwnFormat) {
  const TemporaryDirectory directory;
  directory.write("consolidated.safetensors", "x");
  EXPECT_CONTAINS(error_in(directory.path()), "weights in their authors' own format");
  directory.write("adapter_model.safetensors", "x");
  directory.write("adapter_config.json", "{}");
  EXPECT_CONTAINS(error_in(directory.path()), "found an adapter (PEFT of an unknown model)");
}

TEST(SafetensorsFiles, DescribeTheExpectedDirectory) {
  const TemporaryDirectory directory;
  EXPECT_CONTAINS(error_in(directory.path()),
                  "neither model.safetensors nor model.safetensors.index.json; give the");
}

}  // namespace
}  // namespace tp
