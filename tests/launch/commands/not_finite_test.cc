// Weights and results that are NaN or infinite are errors in every command.

#include "tests/launch/damaged_weights.h"
#include "tests/launch/program.h"
#include "tests/launch/text_encoder.h"
#include "tests/launch/text_model.h"
#include "tests/reference/fixture.h"

#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

namespace fs = std::filesystem;

constexpr float kGreatest = std::numeric_limits<float>::max();

// Expects that the command reports the tensor in one line and prints no NaN.
void expect_damaged(std::size_t ranks, const Arguments& arguments, const std::string& tensor) {
  SCOPED_TRACE(fmt::format("{} {}", arguments.front(), tensor));
  const Finished finished = run(ranks, arguments);
  EXPECT_EQ(finished.status, 1);
  EXPECT_EQ(finished.out, "");
  EXPECT_CONTAINS(finished.err, tensor);
  EXPECT_CONTAINS(finished.err, "expected numbers, found NaN or infinity, which are not finite");
}

// One element is damaged. Most texts don't use it if it belongs to the vocabulary.
TEST(NotFinite, WeightsOfEveryKindOfTensorAreNamed) {
  for (const char* tensor :
       {"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
        "model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.o_proj.weight",
        "model.layers.1.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"}) {
    const CheckpointCopies copies;
    const fs::path folder = copies.copy("llama-gqa-bf16", "model");
    overwrite(folder, tensor, kNotANumber, 17, 1);
    const std::string tokens = folder / "prompt.json";
    for (const char* weights : {"auto", "f32", "f16", "int8", "int4"})
      expect_damaged(kNoMpirun, {"generate", "--model", folder, "--tokens", tokens, "--weights", weights},
                     fmt::format("cannot load {}: ", tensor));
  }
}

TEST(NotFinite, WeightsAreAnErrorOfEveryCommand) {
  for (const float value : {kNotANumber, -std::numeric_limits<float>::infinity()}) {
    const CheckpointCopies copies;
    const fs::path folder = copies.copy("llama-gqa-bf16", "model");
    overwrite(folder, "model.layers.1.mlp.up_proj.weight", value, 256 * 96 - 1, 1);
    const std::string tokens = folder / "prompt.json";
    const std::string output = copies.path() / "x.npy";
    const std::string expected = "cannot load model.layers.1.mlp.up_proj.weight: ";
    for (const Arguments& arguments :
         std::vector<Arguments>{{"generate", "--tokens", tokens},
                                {"generate", "--tokens", tokens, "--packed-cache", copies.path() / "packed"},
                                {"logits", "--tokens", tokens, "--output", output},
                                {"hidden", "--tokens", tokens, "--output", output},
                                {"embed", "--tokens", tokens},
                                {"perplexity", "--tokens", tokens},
                                {"bench", "--prompt", "8", "--generate", "4", "--json"},
                                {"serve", "--port", "0"}}) {
      Arguments all = arguments;
      all.insert(all.begin() + 1, {"--model", folder});
      expect_damaged(kNoMpirun, all, expected);
    }
    expect_damaged(2, {"generate", "--model", folder, "--tokens", tokens}, expected);
    EXPECT_FALSE(fs::exists(output));
    const Finished quantized = run(kNoMpirun, {"quantize", "--model", folder, "--weights", "int8", "--output",
                                               copies.path() / "x.gguf"});
    expect_one_error(quantized, 1, "expected finite elements of at most ");
  }
}

TEST(NotFinite, WeightsThatQuantizeCopiesAreNamed) {
  const CheckpointCopies copies;
  const fs::path folder = copies.copy("llama-gqa-bf16", "model");
  overwrite(folder, "model.layers.0.mlp.up_proj.weight", kNotANumber, 5, 1);
  for (const char* weights : {"bf16", "f32", "q4_k_m"})
    expect_one_error(run(kNoMpirun, {"quantize", "--model", folder, "--weights", weights, "--output",
                                     copies.path() / "x.gguf"}),
                     1, "cannot quantize blk.0.ffn_up.weight: expected finite elements of at most ");
}

TEST(NotFinite, WeightsOfEncodersAreNamed) {
  const TextEncoder reranker("xlmroberta-reranker");
  const std::string texts = reranker.directory().write("texts.txt", "red\n");
  overwrite(reranker.path(), "classifier.out_proj.weight", kNotANumber, 3, 1);
  expect_damaged(kNoMpirun, {"rank", "--model", reranker.path(), "--query", "sky", "--batch", texts},
                 "cannot load classifier.out_proj.weight: ");
  expect_damaged(kNoMpirun, {"classify", "--model", reranker.path(), "--prompt", "red", "--json"},
                 "cannot load classifier.out_proj.weight: ");
}

// The largest numbers are finite, but results computed with them are not.
TEST(NotFinite, ResultsAreAnErrorAndNoJson) {
  const auto expect_no_results = [](const Arguments& arguments, const std::string& results) {
    const Finished finished = run(kNoMpirun, arguments);
    expect_one_error(finished, 1, "cannot compute " + results + ": the model's results are not finite");
  };
  const TextEncoder embedder("bert-embed-mean");
  const std::string ids = embedder.directory().write("ids.json", "[1, 10, 2]");
  overwrite(embedder.path(), "encoder.layer.2.output.LayerNorm.weight", kGreatest, 0, 0);
  expect_no_results({"embed", "--model", embedder.path(), "--prompt", "red"}, "hidden states");
  expect_no_results({"hidden", "--model", embedder.path(), "--tokens", ids, "--output",
                     (embedder.directory().path() / "x.npy").string()},
                    "hidden states");
  const TextEncoder reranker("xlmroberta-reranker");
  const std::string texts = reranker.directory().write("texts.txt", "red\n");
  overwrite(reranker.path(), "classifier.out_proj.weight", kGreatest, 0, 0);
  overwrite(reranker.path(), "classifier.dense.bias", 9.0F, 0,
            0);  // the sum exceeds the largest number
  expect_no_results({"rank", "--model", reranker.path(), "--query", "sky", "--batch", texts, "--json"},
                    "scores");
  expect_no_results({"classify", "--model", reranker.path(), "--prompt", "red", "--json"}, "scores");
}

}  // namespace
}  // namespace tp::test
