#include "model/weights/gguf/gguf_writer.h"

#include "model/weights/gguf/gguf_files.h"
#include "parallel/machine/file_text.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <fstream>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::TemporaryDirectory;

GgufValues some_values() {
  GgufValues values;
  values.text("general.architecture", "llama");
  values.whole("llama.block_count", 3);
  values.number("llama.eps", 0.5F);
  values.boolean("yes", true);
  values.texts("list", std::vector<std::string>{"a", "", "ccc"});
  values.wholes("wholes", std::vector<std::int32_t>{1, -2});
  values.numbers("numbers", std::vector<float>{0.25F, -1.0F, 3.0F});
  return values;
}

TEST(GgufWriter, WritesFilesForTheReader) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "model.gguf";
  const std::vector<GgufOutput> tensors = {{"a.weight", {2, 64}, *find_gguf_type("Q8_0")},
                                           {"b.bias", {3}, *find_gguf_type("F32")},
                                           {"c.weight", {2, 3, 32}, *find_gguf_type("F16")}};
  GgufWriter writer(path, some_values(), tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<std::byte> bytes(tensors[i].bytes(), static_cast<std::byte>(i + 1));
    const std::size_t half = bytes.size() / 2;
    writer.write(i, half, std::span(bytes).subspan(half));
    writer.write(i, 0, std::span(bytes).first(half));
  }
  writer.finish();
  const GgufFiles files(path);
  const GgufMetadata& metadata = files.metadata();
  EXPECT_EQ(metadata.text("general.architecture"), "llama");
  EXPECT_EQ(metadata.whole("llama.block_count"), 3U);
  EXPECT_EQ(metadata.number("llama.eps"), 0.5);
  EXPECT_TRUE(metadata.boolean_or("yes", false));
  EXPECT_EQ(metadata.texts("list"), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_EQ(metadata.numbers("wholes"), (std::vector<double>{1, -2}));
  EXPECT_EQ(metadata.numbers("numbers"), (std::vector<double>{0.25, -1, 3}));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const GgufFiles::Entry* const entry = files.find(tensors[i].name);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->tensor.shape, tensors[i].shape);
    EXPECT_EQ(entry->tensor.type, tensors[i].type);
    ASSERT_EQ(entry->tensor.bytes.size(), tensors[i].bytes());
    for (const std::byte byte : entry->file.bytes().subspan(entry->tensor.bytes.begin, tensors[i].bytes()))
      ASSERT_EQ(byte, static_cast<std::byte>(i + 1));
  }
}

TEST(GgufWriter, CopiesValuesOfAnotherFile) {
  const TemporaryDirectory directory;
  const std::vector<GgufOutput> tensors = {{"a", {1}, *find_gguf_type("F32")}};
  const std::filesystem::path first = directory.path() / "first.gguf";
  const std::filesystem::path second = directory.path() / "second.gguf";
  GgufWriter(first, some_values(), tensors).finish();
  const GgufFiles files(first);
  GgufValues values;
  for (const auto& [key, value] : files.metadata().values()) values.copy(key, value);
  GgufWriter(second, values, tensors).finish();
  EXPECT_EQ(file_text(first), file_text(second));
}

TEST(NewFile, HasItsNameOnlyWhenItIsFinished) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "file";
  std::ofstream(path) << "before";
  const std::string text = "after";
  {
    NewFile file(path);
    file.reserve(text.size());
    file.write(0, std::as_bytes(std::span(text)));
    EXPECT_TRUE(std::filesystem::exists(file.unfinished()));
  }
  EXPECT_EQ(file_text(path), "before");
  NewFile file(path);
  EXPECT_THROW(NewFile{path}, Error) << "another process is writing it";
  file.reserve(text.size());
  file.write(0, std::as_bytes(std::span(text)));
  file.finish();
  EXPECT_EQ(file_text(path), text);
  EXPECT_FALSE(std::filesystem::exists(file.unfinished()));
}

TEST(NewFile, SaysThatTheDiskIsTooSmallBeforeAnythingIsWritten) {
  const TemporaryDirectory directory;
  NewFile file(directory.path() / "file");
  const std::string text = test::error_of<Error>([&] { file.reserve(std::uint64_t{1} << 60); });
  EXPECT_CONTAINS(text, "expected room for 1152921504606846976 bytes on its disk");
  EXPECT_CONTAINS(text, "free some space, or give an `output` elsewhere");
}

TEST(NewFile, SaysWhyItCannotBeCreated) {
  EXPECT_EQ(test::error_of<Error>([&] { const NewFile file("/nowhere/file"); }),
            "cannot write /nowhere/file: expected a folder in which files can be created, found: No such "
            "file or directory; give another `output`");
}

}  // namespace
}  // namespace tp
