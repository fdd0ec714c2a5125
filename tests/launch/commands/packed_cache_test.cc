// --packed-cache: the next start loads packed weights.
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

class PackedCacheOption : public testing::Test {
 protected:
  Finished generate(std::size_t ranks, const Arguments& more = {}) const {
    Arguments arguments = {"generate",     "--model", model_.path(), "--prompt",       "Hello",
                           "--max-tokens", "8",       "-v",          "--packed-cache", folder().string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(ranks, arguments);
  }
  std::filesystem::path folder() const { return directory_.path() / "packed"; }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) all.push_back(entry.path());
    return all;
  }

  static bool used_cache(const Finished& finished) {
    return finished.err.find("all ranks loaded their weights from the packed cache") != std::string::npos;
  }

  TextModel model_;
  TemporaryDirectory directory_;
};

TEST_F(PackedCacheOption, GivesTheSameTextFromTheSecondStartOn) {
  for (const Arguments& more : {Arguments{}, Arguments{"--weights", "int4"}, Arguments{"--same-bits"}}) {
    const Finished first = generate(2, more);
    ASSERT_EQ(first.status, 0) << first.err;
    EXPECT_FALSE(used_cache(first));
    const Finished second = generate(2, more);
    EXPECT_TRUE(used_cache(second)) << second.err;
    EXPECT_EQ(second.out, first.out);
  }
  EXPECT_EQ(files().size(), 6U);
  // A different number of ranks has separate files.
  EXPECT_FALSE(used_cache(generate(1)));
  EXPECT_TRUE(used_cache(generate(1)));
}

TEST_F(PackedCacheOption, IsMadeAnewIfOneRanksFileIsDamaged) {
  const Finished first = generate(2);
  ASSERT_EQ(first.status, 0) << first.err;
  for (const std::filesystem::path& path : files()) {
    if (path.string().find("rank-1") == std::string::npos) continue;
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(20000).write("damage", 6);
  }
  const Finished second = generate(2);
  EXPECT_FALSE(used_cache(second));
  EXPECT_EQ(second.out, first.out);
  EXPECT_CONTAINS(
      second.err,
      "tp-infer: the weights are packed again, because the packed cache of rank 1 cannot be used: it "
      "is damaged");
  EXPECT_TRUE(used_cache(generate(2)));
}

TEST_F(PackedCacheOption, IsMadeAnewIfTheModelHasChanged) {
  ASSERT_EQ(generate(1).status, 0);
  const std::filesystem::path weights = std::filesystem::path(model_.path()) / "model.safetensors";
  const std::filesystem::file_time_type time = std::filesystem::last_write_time(weights);
  std::filesystem::last_write_time(weights, time + std::chrono::seconds(1));
  EXPECT_TRUE(used_cache(generate(1))) << "the contents are the same";
  std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
  const auto place = static_cast<std::streamoff>(std::filesystem::file_size(weights) - 1001);
  const auto byte = static_cast<char>(file.seekg(place).get() ^ 1);
  file.seekp(place).put(byte);
  file.close();
  std::filesystem::last_write_time(weights, time);
  const Finished second = generate(1);
  EXPECT_FALSE(used_cache(second));
  EXPECT_CONTAINS(second.err, "the model, or how weights are packed, has changed");
}

TEST_F(PackedCacheOption, MustBeAFolder) {
  std::ofstream(folder()) << "a file";
  expect_one_error(generate(2), 1, "cannot keep packed weights in");
}

TEST(Loading, InTwoPhasesGivesTheSameText) {
  const TextModel model;
  const Arguments arguments = {"generate", "--model", model.path(), "--prompt", "Hello", "--max-tokens", "8"};
  const auto with = [&](const std::string& way) {
    StartOptions options;
    options.variables = {"TP_LOADING=" + way};
    return run(2, arguments, options);
  };
  const Finished mapped = with("mapped");
  EXPECT_EQ(mapped.status, 0) << mapped.err;
  EXPECT_EQ(with("two-phase").out, mapped.out);
  expect_one_error(with("anyhow"), 1, "TP_LOADING must be mapped or two-phase, found \"anyhow\"");
}

}  // namespace
}  // namespace tp::test
