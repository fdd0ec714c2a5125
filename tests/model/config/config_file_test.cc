// config.json as a file: its text, its folder, and other files instead of it.
#include "model/config/config.h"
#include "model/files/file_notices.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/config/small_config.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::error_of;
using test::small_config;

TEST(Config, RejectsTextThatIsNotAJsonObject) {
  for (const char* text : {"", "{", "[1, 2]", "null", "{\"hidden_size\": }", "\xff\xfe"}) {
    const std::string error = error_of<CheckpointError>([&] { parse_config(text, "config.json"); });
    EXPECT_EQ(error.find("config.json: cannot "), 0U) << error;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "[";
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { parse_config("{\"a\":" + deep, "config.json"); }),
                  "nested");
}

// Python, which writes these files, reads duplicates like this.
TEST(Config, UsesTheLastValueOfADuplicateFieldWithANotice) {
  take_file_notices();
  const std::string text = small_config().dump();
  const CheckpointConfig config = parse_config(R"({"hidden_size": 999, )" + text.substr(1), "config.json");
  EXPECT_EQ(config.hidden_size, 64U);
  EXPECT_EQ(take_file_notices(),
            std::vector<std::string>{
                "config.json: an object has the key hidden_size twice; its last value counts"});
}

TEST(Config, IgnoresPythonsNumbersInUnusedFields) {
  const std::string text = small_config().dump();
  const auto with = [&](const std::string& field) {
    return parse_config("{" + field + ", " + text.substr(1), "config.json");
  };
  EXPECT_EQ(with(R"("time_step_limit": [0.0, Infinity, -Infinity, NaN])").hidden_size,
            parse_config(text, "config.json").hidden_size);
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { with(R"("attention_multiplier": Infinity)"); }),
                  "cannot use attention_multiplier: found the string 'Infinity', expected a number");
}

TEST(Config, DescribesAFolderWithoutAModel) {
  const test::TemporaryDirectory adapter;
  adapter.write("adapter_config.json", R"({"peft_type": "LORA", "base_model_name_or_path": "org/base"})");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { load_config(adapter.path()); }),
                  "expected a model, found an adapter (LORA of org/base) without its model; give its model");
  const test::TemporaryDirectory pipeline;
  pipeline.write("model_index.json", "{}");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { load_config(pipeline.path()); }),
                  "found a pipeline of several models (model_index.json)");
  const test::TemporaryDirectory original;
  original.write("params.json", "{}");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { load_config(original.path()); }),
                  "found its authors' own format (params.json)");
}

TEST(Config, SaysThatALinkHasLostItsTarget) {
  const test::TemporaryDirectory directory;
  std::filesystem::create_symlink("../blobs/gone", directory.path() / "config.json");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { load_config(directory.path()); }),
                  "config.json: expected a file, found a link to ../blobs/gone, which does not exist; copy");
}

TEST(Config, SaysWhichFileIsMissing) {
  const test::TemporaryDirectory directory;
  const std::string path = (directory.path() / "config.json").string();
  EXPECT_EQ(error_of<CheckpointError>([&] { load_config(directory.path()); }),
            path +
                ": cannot read the file: expected a JSON file, found: No such file or directory; check the "
                "path on every host");
}

TEST(Config, IsReadFromAFolderOrAFile) {
  const test::TemporaryDirectory directory;
  directory.write("config.json", small_config().dump());
  EXPECT_EQ(load_config(directory.path()).vocab_size, 320U);
  EXPECT_EQ(load_config(directory.path() / "config.json").vocab_size, 320U);
}

}  // namespace
}  // namespace tp
