// Models that don't fit into memory are reported before loading, so that the kernel doesn't kill a process.

#include "tests/launch/program.h"
#include "tests/launch/text_model.h"
#include "tests/model/weights/checkpoint_files.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

// Arguments of a benchmark with generated weights of this shape, one row each for prefill and decode.
Arguments bench(const TemporaryDirectory& directory, const json& changes, const Arguments& more = {}) {
  json config = read_json(fixture_folder("llama-gqa") / "config.json");
  config.update(changes);
  Arguments arguments = {"bench",    "--synthetic", directory.write("config.json", config.dump()),
                         "--prompt", "8",           "--generate",
                         "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// 3 PiB in bf16, more than any machine has.
const json kVast = {{"hidden_size", 1 << 20},      {"intermediate_size", 1 << 22}, {"num_hidden_layers", 100},
                    {"num_attention_heads", 4096}, {"num_key_value_heads", 4096},  {"head_dim", 256},
                    {"torch_dtype", "bfloat16"}};

TEST(Memory, AModelThatIsTooLargeIsOneErrorOnAllRanks) {
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

// A rank has about 1.6 GiB of the weights.
TEST(Memory, RespectsUlimit) {
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

TEST(Memory, ShortageShrinksTheCacheWithANotice) {
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

// Writes a checkpoint with 75 million parameters in bf16, 150 MB. The largest matrices have 17 MB.
std::filesystem::path write_checkpoint(const TemporaryDirectory& directory) {
  constexpr std::size_t kHidden = 1024, kIntermediate = 4096, kVocabulary = 8192, kLayers = 4;
  std::vector<TestTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<std::size_t> shape) {
    std::size_t elements = 1;
    for (const std::size_t extent : shape) elements *= extent;
    std::vector<std::uint16_t> values(elements);
    for (std::size_t i = 0; i < elements; ++i)  // bf16 from 0.0078 to 0.0156, and their negatives
      values[i] = static_cast<std::uint16_t>(0x3C00 | (i * 40503 >> 3 & 0x7F) | (i & 1) << 15);
    tensors.push_back({name + ".weight", "BF16", std::move(shape), bytes_of(values)});
  };
  add("model.embed_tokens", {kVocabulary, kHidden});
  add("model.norm", {kHidden});
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const std::string block = "model.layers." + std::to_string(layer) + ".";
    for (const char* name : {"input_layernorm", "post_attention_layernorm"}) add(block + name, {kHidden});
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
      add(block + "self_attn." + name, {kHidden, kHidden});
    for (const char* name : {"gate_proj", "up_proj"}) add(block + "mlp." + name, {kIntermediate, kHidden});
    add(block + "mlp.down_proj", {kHidden, kIntermediate});
  }
  directory.write("model.safetensors", safetensors_file(tensors));
  directory.write("config.json", json{{"architectures", {"LlamaForCausalLM"}},
                                      {"hidden_size", kHidden},
                                      {"intermediate_size", kIntermediate},
                                      {"num_hidden_layers", kLayers},
                                      {"num_attention_heads", 16},
                                      {"vocab_size", kVocabulary},
                                      {"torch_dtype", "bfloat16"},
                                      {"tie_word_embeddings", true}}
                                     .dump());
  return directory.path();
}

// A rank's memory peak from the start of loading to the end of a prompt: the part beyond its weights, cache
// and workspace, and the sum of these three.
struct PeakOfRank {
  double beyond = 0.0;
  double planned = 0.0;
};

std::vector<PeakOfRank> peaks_of(std::size_t ranks, const std::filesystem::path& model,
                                 const std::string& weights) {
  const Finished finished = run(
      ranks, {"bench", "--model", model, "--weights", weights, "--prompt", "8", "--generate", "0", "--json"});
  expect_success(finished);
  std::vector<PeakOfRank> peaks;
  const json row = json_lines(finished.out).at(0);
  for (const json& rank : row.at("per_rank")) {
    double planned = 0.0;
    for (const char* part : {"weight_bytes", "cache_bytes", "workspace_bytes"})
      planned += rank.at(part).get<double>();
    peaks.push_back({rank.at("peak_resident_bytes").get<double>() - planned, planned});
  }
  return peaks;
}

// A tiny model gives the memory of the program, libraries and MPI. The test detects a file that stays mapped
// beyond the matrix being converted, and a second copy of the weights.
TEST(Memory, LoadingNeedsLittleMoreThanTheLoadedModel) {
  if (TP_SANITIZED) GTEST_SKIP() << "sanitizers take memory of their own";
  constexpr double kMatrixAndNoise = 28e6;
  const TemporaryDirectory directory;
  const TextModel tiny;
  const std::filesystem::path model = write_checkpoint(directory);
  for (const std::size_t ranks : {1, 2}) {
    const double program = peaks_of(ranks, tiny.path(), "f32").front().beyond;
    for (const char* weights : {"f32", "f16", "bf16", "int8", "int4"}) {
      for (const PeakOfRank& rank : peaks_of(ranks, model, weights))
        EXPECT_LE(rank.beyond, program + 0.05 * rank.planned + kMatrixAndNoise) << weights << ", " << ranks;
    }
  }
}

}  // namespace
}  // namespace tp::test
