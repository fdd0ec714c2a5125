// Models that do not fit into memory: said before anything is loaded, instead of a process that the kernel
// kills.

#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

// Two rows of a prefill and a decode on generated weights of this shape.
Arguments bench(const TemporaryDirectory& directory, const json& changes, const Arguments& more = {}) {
  json config = read_json(fixture_folder("llama-gqa") / "config.json");
  config.update(changes);
  Arguments arguments = {"bench",    "--synthetic", directory.write("config.json", config.dump()),
                         "--prompt", "8",           "--generate",
                         "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// 3 PiB in bf16: no machine has that.
const json kVast = {{"hidden_size", 1 << 20},      {"intermediate_size", 1 << 22}, {"num_hidden_layers", 100},
                    {"num_attention_heads", 4096}, {"num_key_value_heads", 4096},  {"head_dim", 256},
                    {"torch_dtype", "bfloat16"}};

TEST(Memory, OfAModelThatIsTooLargeIsOneErrorOnAllRanks) {
  const TemporaryDirectory directory;
  const Finished finished = run(2, bench(directory, kVast));
  expect_one_error(finished, 1, "tp-infer: cannot load the model: 2 ranks on ");
  EXPECT_CONTAINS(finished.err, " TiB of memory (weights ");
  EXPECT_CONTAINS(finished.err, " are available (");
}

// A script that gives a rank 1.7 GB of address space.
std::string limiting_script(const TemporaryDirectory& directory) {
  const auto script = directory.write("limited.sh", "#!/bin/sh\nulimit -v 1700000\nexec \"$@\"\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  return script;
}

// A rank has about 1.6 GiB of its weights.
TEST(Memory, IsWhatUlimitLeavesOfIt) {
  if (TP_SANITIZED) GTEST_SKIP() << kNoAddressLimits;
  const TemporaryDirectory directory;
  const Arguments arguments = bench(directory, {{"hidden_size", 4096},
                                                {"intermediate_size", 16384},
                                                {"num_hidden_layers", 3},
                                                {"head_dim", 512},
                                                {"torch_dtype", "float32"}});
  Process process(command_line(2, arguments, limiting_script(directory)));
  const Finished finished = process.finish();
  expect_one_error(finished, 1, "cannot load the model: rank ");
  EXPECT_CONTAINS(finished.err, " are available (ulimit -v); what would fit: --weights ");
}

TEST(Memory, ThatIsTooLittleForTheCacheMakesItSmallerAndIsSaid) {
  if (TP_SANITIZED) GTEST_SKIP() << kNoAddressLimits;
  const TemporaryDirectory directory;
  const TextModel model;
  Process process(command_line(2,
                               {"generate", "--model", model.path(), "--prompt", "x", "--greedy",
                                "--max-tokens", "3", "--cache-tokens", "1000000000000"},
                               limiting_script(directory)));
  const Finished finished = process.finish();
  EXPECT_EQ(finished.status, 0);
  EXPECT_NE(finished.out, "");
  EXPECT_CONTAINS(finished.err, "tp-infer: the KV cache has room for ");
  EXPECT_CONTAINS(finished.err, " tokens instead of 1000000000000: ");
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
}

}  // namespace
}  // namespace tp::test
