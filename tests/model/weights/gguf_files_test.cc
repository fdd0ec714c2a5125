#include "model/weights/gguf/gguf_files.h"

#include "tests/model/weights/gguf_builder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::error_of;
using test::GgufBuilder;
using test::TemporaryDirectory;

std::string floats(std::size_t count) { return test::bytes_of(std::vector<float>(count, 1.0F)); }

// Part `number` of three, with one tensor.
std::string part(int number, const std::string& tensor, int tensors = 3) {
  GgufBuilder builder;
  if (number == 0) builder.text("general.architecture", "llama");
  builder.value("split.no", GgufKind::u16, test::le(static_cast<std::uint16_t>(number)))
      .value("split.count", GgufKind::u16, test::le(std::uint16_t{3}))
      .value("split.tensors.count", GgufKind::i32, test::le(tensors));
  return builder.tensor(tensor, {4}, "F32", floats(4)).file();
}

TEST(FindGguf, TakesAFileOrTheOnlyModelOfAFolder) {
  const TemporaryDirectory folder;
  EXPECT_EQ(find_gguf(folder.path()), std::nullopt);
  const auto file = folder.write("m.gguf", GgufBuilder().file());
  EXPECT_EQ(find_gguf(file), file);
  EXPECT_EQ(find_gguf(folder.path()), file);
  EXPECT_EQ(find_gguf(folder.path() / "absent.gguf"), folder.path() / "absent.gguf");
  EXPECT_EQ(find_gguf(folder.path() / "config.json"), std::nullopt);
  folder.write("n.gguf", GgufBuilder().file());
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { find_gguf(folder.path()); }),
                  "has 2 GGUF models, expected one");
  folder.write("config.json", "{}");
  EXPECT_EQ(find_gguf(folder.path()), std::nullopt);
}

TEST(FindGguf, TakesTheFirstPartForAnyPart) {
  const TemporaryDirectory folder;
  for (int number = 1; number <= 3; ++number)
    folder.write(fmt::format("m-{:05}-of-00003.gguf", number), part(number - 1, fmt::format("t{}", number)));
  const auto first = folder.path() / "m-00001-of-00003.gguf";
  EXPECT_EQ(find_gguf(folder.path() / "m-00002-of-00003.gguf"), first);
  EXPECT_EQ(find_gguf(folder.path()), first);
  const GgufFiles files(first);
  EXPECT_EQ(files.tensors().size(), 3U);
  EXPECT_EQ(files.find("t3")->file.name(), "m-00003-of-00003.gguf");
  EXPECT_EQ(files.metadata().text("general.architecture"), "llama");
  EXPECT_EQ(files.stored_bytes(), 48U);
  EXPECT_EQ(files.name(), "m-00001-of-00003.gguf and 2 more");
}

TEST(GgufFiles, NamesMissingWrongOrMisnamedParts) {
  const TemporaryDirectory folder;
  const auto first = folder.write("m-00001-of-00003.gguf", part(0, "a"));
  const auto error = [](const std::filesystem::path& path) {
    return error_of<CheckpointError>([&] { GgufFiles files(path); });
  };
  folder.write("m-00002-of-00003.gguf", part(1, "b"));
  EXPECT_CONTAINS(error(first), "m-00003-of-00003.gguf: no such file");
  folder.write("m-00003-of-00003.gguf", part(1, "c"));
  EXPECT_CONTAINS(error(first), "says it is part 2, expected part 3");
  folder.write("m-00003-of-00003.gguf", part(2, "a"));
  EXPECT_CONTAINS(error(first), "tensor a is in m-00001-of-00003.gguf too");
  folder.write("m-00003-of-00003.gguf", part(2, "c", 4));
  EXPECT_EQ(GgufFiles(first).tensors().size(), 3U);  // the first part's count is used
  folder.write("m-00001-of-00003.gguf", part(0, "a", 4));
  EXPECT_CONTAINS(error(first), "have 3 tensors together, expected 4");
  EXPECT_CONTAINS(error(folder.write("other.gguf", part(0, "a"))),
                  "part 1 of 3, expected a name that ends in");
}

}  // namespace
}  // namespace tp
