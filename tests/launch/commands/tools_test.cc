// tp-infer logits, inspect and bench.

#include "tests/launch/damaged_weights.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"
#include "tests/reference/fixture.h"
#include "tests/reference/npy_array.h"

#include <cmath>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

Arguments logits(const reference::Fixture& fixture, const std::filesystem::path& output) {
  return {"logits",   "--model", fixture.folder, "--tokens", (fixture.folder / "prompt.json").string(),
          "--output", output};
}

TEST(Logits, MatchTheModelsOwnCodeOnSeveralRanks) {
  const TemporaryDirectory directory;
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  for (const std::size_t ranks : {0, 3}) {
    const auto output = directory.path() / (std::to_string(ranks) + ".npy");
    const Finished finished = run(ranks, logits(fixture, output));
    expect_success(finished);
    EXPECT_EQ(finished.out, "");
    // Two correct float32 implementations differ by about 1e-5 (README of the fixtures).
    EXPECT_LT(fixture.rows.difference(read_npy(output).values), 1e-3) << ranks << " ranks";
  }
}

TEST(Logits, DoNotDependOnTheChunks) {
  const TemporaryDirectory directory;
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  for (const char* chunk : {"1", "7"}) {
    Arguments arguments = logits(fixture, directory.path() / "x.npy");
    arguments.insert(arguments.end(), {"--prefill-chunk", chunk});
    expect_success(run(2, arguments));
    EXPECT_LT(fixture.rows.difference(read_npy(directory.path() / "x.npy").values), 1e-3);
  }
}

TEST(Logits, ErrorsOfTheFirstRankEndAllOfThem) {
  const TemporaryDirectory directory;
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const auto with_tokens = [&](const std::string& tokens) {
    const auto file = directory.write("ids.json", tokens);
    return run(3, {"logits", "--model", fixture.folder, "--tokens", file, "--output",
                   (directory.path() / "x.npy").string()});
  };
  expect_one_error(run(3, logits(fixture, "/proc/nonexistent/x.npy")), 1,
                   "/proc/nonexistent/x.npy: the file cannot be written");
  expect_one_error(with_tokens("[1, 320]"), 1, "token id 320, but the vocabulary has the ids 0 to 319");
  expect_one_error(with_tokens("[]"), 1, "no token ids; expected at least one");
  expect_one_error(with_tokens("[1,"), 1, "expected a JSON list of token ids (parse error");
  expect_one_error(with_tokens("[1, \"a\"]"), 1, "found \"a\" at place 1");
  const std::string deep = std::string(500000, '[') + std::string(500000, ']');
  expect_one_error(with_tokens(deep), 1, "nested deeper than 64 levels");
  EXPECT_EQ(directory.files(), std::vector<std::string>{"ids.json"}) << "nothing half done is left";
}

// Makes a token's embedding infinite through a multiplier. The checkpoint's elements stay finite.
void overflow_embedding(const std::filesystem::path& folder, TokenId token) {
  constexpr std::size_t kHidden = 96;
  change_config(folder, {{"architectures", {"GraniteForCausalLM"}},
                         {"attention_multiplier", 0.28},
                         {"embedding_multiplier", 2.0},
                         {"residual_multiplier", 1.0},
                         {"logits_scaling", 1.0}});
  overwrite(folder, "model.embed_tokens.weight", 3e38F, static_cast<std::size_t>(token) * kHidden, kHidden);
}

// Positions before the damaged token do not see it.
TEST(Logits, NanRowsAreWrittenAndTheFirstOneIsReported) {
  const CheckpointCopies copies;
  const auto folder = copies.copy("llama-gqa-bf16", "model");
  const reference::Fixture fixture = reference::fixture("llama-gqa-bf16");
  const auto damaged = std::find(fixture.prompt.begin(), fixture.prompt.end(), fixture.prompt[20]);
  const auto first = static_cast<std::size_t>(damaged - fixture.prompt.begin());
  overflow_embedding(folder, *damaged);
  const std::string tokens = (folder / "prompt.json").string();
  const std::string output = (copies.path() / "x.npy").string();
  for (const std::size_t ranks : {std::size_t{kNoMpirun}, std::size_t{3}}) {
    expect_one_error(
        run(ranks, {"logits", "--model", folder, "--tokens", tokens, "--output", output}), 1,
        fmt::format(
            "x.npy is written, but {} of its {} rows have logits that are not finite numbers (the first "
            "at position {}, token 0: NaN); check the checkpoint, and try --weights f32 if it is stored "
            "as f16",
            fixture.prompt.size() - first, fixture.prompt.size(), first));
  }
  const NpyArray written = read_npy(output);
  EXPECT_TRUE(first == 0 || std::isfinite(written.view()(first - 1, 0)));
  EXPECT_TRUE(std::isnan(written.view()(first, 0)));
  expect_one_error(run(2, {"generate", "--model", folder, "--tokens", tokens}), 1,
                   "cannot choose a token: the model's logits are not finite");
  expect_one_error(run(2, {"perplexity", "--model", folder, "--tokens", tokens}), 1,
                   "the model's logits are not finite");
  for (TokenId token = 0; token < 320; ++token) overflow_embedding(folder, token);
  expect_one_error(run(2, {"bench", "--model", folder, "--prompt", "8", "--generate", "4", "--json"}), 1,
                   "cannot choose a token: the model's logits are not finite");
}

// Consecutive ranges from 0 to `end`.
void expect_tiles(const json& ranks, const std::string& field, std::size_t end) {
  std::size_t next = 0;
  for (const json& rank : ranks) {
    EXPECT_EQ(rank.at(field).at(0), next) << field;
    next = rank.at(field).at(1).get<std::size_t>();
  }
  EXPECT_EQ(next, end) << field;
}

TEST(Inspect, SharesMatchTheLoadedRanks) {
  const TextModel model;
  for (const std::size_t ranks : {1, 3}) {
    const Finished finished =
        run(kNoMpirun, {"inspect", "--model", model.path(), "--json", "--ranks", std::to_string(ranks)},
            {.variables = {"OMP_NUM_THREADS=1"}});  // run() gives each rank one thread
    expect_success(finished);
    const json planned = json::parse(finished.out);
    ASSERT_EQ(planned.at("ranks").size(), ranks);
    expect_tiles(planned.at("ranks"), "query_heads", 4);
    expect_tiles(planned.at("ranks"), "mlp_columns", 48);
    expect_tiles(planned.at("ranks"), "vocabulary", 2600);
    const Finished measured =
        run(ranks, {"bench", "--model", model.path(), "--prompt", "4", "--generate", "0", "--json"});
    expect_success(measured);
    const json row = json_lines(measured.out).at(0);
    EXPECT_EQ(row.at("parameters"), planned.at("parameters"));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (const char* field : {"weight_bytes", "workspace_bytes"})
        EXPECT_EQ(row.at("per_rank").at(rank).at(field), planned.at("ranks").at(rank).at(field)) << field;
    }
  }
}

TEST(Inspect, ABareConfigIsEnough) {
  const TemporaryDirectory directory;
  const auto config = directory.path() / "any name.json";
  std::filesystem::copy_file(fixture_folder("llama-gqa") / "config.json", config);
  const Finished finished = run(kNoMpirun, {"inspect", "--model", config});
  expect_success(finished);
  EXPECT_CONTAINS(finished.out, "num_key_value_heads       4 (GQA)");
  EXPECT_EQ(finished.err, "");
  const Finished longer = run(kNoMpirun, {"inspect", "--model", config, "--context", "4194304"});
  EXPECT_EQ(longer.status, 0);
  EXPECT_CONTAINS(longer.err, "tokens, found --context 4194304; give --context up to");
}

// Imitates a clone without Git LFS, and an interrupted download. Both have an index and one complete file.
TEST(Inspect, AndPlanNeedNoWeights) {
  const CheckpointCopies copies;
  const std::filesystem::path folder = copies.copy("llama-gqa-bf16", "other");
  const auto describe = [&] {
    expect_success(run(kNoMpirun, {"plan", "--model", folder, "--json"}));
    const Finished inspected = run(kNoMpirun, {"inspect", "--model", folder, "--json", "--ranks", "2"});
    expect_success(inspected);
    return json::parse(inspected.out);
  };
  const std::filesystem::path first = folder / "model-00001-of-00002.safetensors";
  const std::filesystem::path second = folder / "model-00002-of-00002.safetensors";
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n";
  std::filesystem::remove(folder / "model.safetensors");
  const json bare = describe();
  const auto write = [](const std::filesystem::path& file, const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
  };
  write(folder / "model.safetensors", pointer);
  EXPECT_EQ(describe(), bare);
  std::filesystem::remove(folder / "model.safetensors");
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  write(index,
        json({{"weight_map",
               {{"model.embed_tokens.weight", first.filename()}, {"model.norm.weight", second.filename()}}}})
            .dump());
  EXPECT_EQ(describe(), bare);
  std::filesystem::copy_file(fixture_folder("llama-gqa-bf16") / "model.safetensors", first);
  EXPECT_EQ(describe(), bare);
  write(second, pointer);
  EXPECT_EQ(describe(), bare);
  write(index, pointer);
  EXPECT_EQ(describe(), bare);
}

TEST(Inspect, ReportsUnknownValuesForAFolderWithOnlyAConfig) {
  const CheckpointCopies copies;
  const std::filesystem::path folder = copies.copy("llama-gqa-bf16", "other");
  const auto inspected = [&] {
    return json::parse(run(kNoMpirun, {"inspect", "--model", folder, "--json", "--ranks", "2"}).out);
  };
  const json whole = inspected();
  std::filesystem::remove(folder / "model.safetensors");
  const json bare = inspected();
  EXPECT_EQ(bare.at("ranks"), whole.at("ranks"));
  EXPECT_GT(whole.at("stored_bytes"), 0);
  EXPECT_TRUE(bare.at("stored_bytes").is_null());
  const Finished text = run(kNoMpirun, {"inspect", "--model", folder});
  expect_success(text);
  EXPECT_CONTAINS(text.out, "checkpoint                not present");
}

// Inspects a fixture with a chunk of 32 tokens, as text and as JSON.
std::pair<std::string, json> inspected(const std::string& fixture, const std::string& context) {
  const std::vector<std::string> args = {
      "inspect", "--model", fixture_folder(fixture), "--prefill-chunk", "32", "--context", context};
  std::vector<std::string> as_json = args;
  as_json.push_back("--json");
  return {run(kNoMpirun, args).out, json::parse(run(kNoMpirun, as_json).out)};
}

int cache_bytes(const json& plan) { return plan.at("ranks").at(0).at("cache_bytes").get<int>(); }

// Half of gemma2-bf16's layers see 8 tokens. With blocks of 32, a window and a chunk of 32 touch at most 3
// blocks.
TEST(Inspect, CountsOfWindowedLayersTheWindowsBlocksOnly) {
  const auto [short_text, short_plan] = inspected("gemma2-bf16", "32");
  const auto [long_text, long_plan] = inspected("gemma2-bf16", "256");
  EXPECT_EQ(short_plan.at("windowed_layers"), 2);
  EXPECT_EQ(2 * cache_bytes(long_plan), (8 + 3) * cache_bytes(short_plan));
  EXPECT_CONTAINS(short_text, "sliding_window            8 tokens, in 2 layers\n");
  EXPECT_CONTAINS(short_text, "cache for 32 tokens in bf16:\n");
  EXPECT_CONTAINS(long_text, "cache for 256 tokens in bf16 (1.5 times as much without windows):\n");
}

// Three of four layers see 8 tokens, or chunks of 8.
TEST(Inspect, CountsTheBlocksOfWindowsAndChunksOfEveryFamily) {
  for (const char* fixture : {"cohere2", "gemma3-multimodal-layout", "llama4-scout", "olmo3"}) {
    const auto [text, long_plan] = inspected(fixture, "256");
    EXPECT_EQ(4 * cache_bytes(long_plan), (8 + 3 * 3) * cache_bytes(inspected(fixture, "32").second))
        << fixture;
    EXPECT_CONTAINS(text, "(1.9 times as much without windows):\n");
    EXPECT_CONTAINS(text, std::string(fixture) == "llama4-scout"
                              ? "attention_chunk_size      8 tokens, in 3 layers\n"
                              : "sliding_window            8 tokens, in 3 layers\n");
  }
}

// Attention like Gemma 4 26B's. The 5 layers without a window need 2.5 GiB for 131,072 tokens in bf16. With a
// single group for all layers, the cache would need 27.5 GiB.
TEST(Inspect, CountsTheWindowsOfLayersThatDifferInSize) {
  const json config = {{"architectures", {"Gemma4ForCausalLM"}},
                       {"hidden_size", 256},
                       {"intermediate_size", 256},
                       {"num_hidden_layers", 30},
                       {"num_attention_heads", 16},
                       {"num_key_value_heads", 8},
                       {"num_global_key_value_heads", 2},
                       {"attention_k_eq_v", true},
                       {"hidden_size_per_layer_input", 0},
                       {"sliding_window", 1024},
                       {"vocab_size", 1024},
                       {"torch_dtype", "bfloat16"}};
  const TemporaryDirectory directory;
  const auto file = directory.path() / "config.json";
  std::ofstream(file) << config;
  for (const char* const ranks : {"1", "2", "4", "8"}) {
    const std::vector<std::string> args = {"inspect", "--model",   file,     "--ranks",
                                           ranks,     "--context", "131072", "--json"};
    const json plan = json::parse(run(kNoMpirun, args).out);
    EXPECT_EQ(plan.at("windowed_layers"), 25);
    double gib = 0.0;
    for (const json& rank : plan.at("ranks")) gib += rank.at("cache_bytes").get<double>() / (1U << 30);
    EXPECT_GT(gib, 2.5);
    EXPECT_LT(gib, 3.0);
  }
}

// Latents, a single KV head, and two KV heads: ranks of one host have equal parts of one copy.
TEST(Inspect, DividesTheCacheAmongTheRanksThatReadAKvHead) {
  const auto bytes_of = [](const char* fixture, const std::string& ranks, const std::string& slices) {
    const json plan =
        json::parse(run(kNoMpirun, {"inspect", "--model", fixture_folder(fixture), "--ranks", ranks,
                                    "--context", "8192", "--kv-slices", slices, "--json"})
                        .out);
    std::vector<double> bytes;
    for (const json& rank : plan.at("ranks")) bytes.push_back(rank.at("cache_bytes").get<double>());
    EXPECT_EQ(plan.at("cache_per_host").get<bool>(), slices == "on" && ranks != "1");
    return bytes;
  };
  for (const char* fixture : {"deepseek3-yarn", "falcon-mqa", "qwen2-tied-14q2kv"}) {
    const double whole = bytes_of(fixture, "1", "on").front();
    for (const double own : bytes_of(fixture, "4", "on"))
      EXPECT_NEAR(own, whole / 4, 0.001 * whole) << fixture;
    EXPECT_GE(bytes_of(fixture, "4", "off").front(), whole / 2);
  }
}

// Three of qwen3next's four layers are recurrent. Their memory does not depend on the context.
TEST(Inspect, ShowsTheStatesOfRecurrentLayers) {
  const auto inspected = [&](const std::string& context) {
    const Finished finished = run(kNoMpirun, {"inspect", "--model", fixture_folder("qwen3next"), "--ranks",
                                              "2", "--context", context, "--json"});
    expect_success(finished);
    return json::parse(finished.out);
  };
  const json plan = inspected("256");
  EXPECT_EQ(plan.at("recurrent_layers"), 3);
  EXPECT_EQ(plan.at("states"), 64);
  // A key head and two value heads have 3 inputs of the convolution and, for up to 15 tokens, keys and
  // additions of 16 floats. Value heads also have 12 rows of 16, and 16 decays.
  const int state = (3 * (2 * 12 + 2 * 12) + 2 * (12 * 16 + 16) + 3 * 15 * 16) * 4;
  EXPECT_EQ(plan.at("ranks").at(1).at("state_bytes"), 64 * 3 * state);
  // Two f32 values for every token of the other layer's KV head.
  EXPECT_EQ(plan.at("ranks").at(1).at("cache_bytes"), 256 * 2 * 16 * 4);
  EXPECT_EQ(inspected("512").at("ranks").at(1).at("state_bytes"), 64 * 3 * state);
  // Two inputs of the convolution for each of the 32 channels, in three layers.
  const Finished convolutions =
      run(kNoMpirun, {"inspect", "--model", fixture_folder("lfm2"), "--ranks", "2", "--json"});
  expect_success(convolutions);
  EXPECT_EQ(json::parse(convolutions.out).at("recurrent_layers"), 3);
  EXPECT_EQ(json::parse(convolutions.out).at("ranks").at(1).at("state_bytes"), 64 * 3 * 2 * 32 * 4);
  // Each of four heads has 3 inputs of three convolutions, 12 rows of 16 and, for up to 15 tokens, keys,
  // decays and additions of 16.
  const Finished delta_attention =
      run(kNoMpirun, {"inspect", "--model", fixture_folder("kimilinear"), "--ranks", "2", "--json"});
  expect_success(delta_attention);
  EXPECT_EQ(json::parse(delta_attention.out).at("recurrent_layers"), 4);
  EXPECT_EQ(json::parse(delta_attention.out).at("ranks").at(1).at("state_bytes"),
            64 * 4 * 4 * (3 * 3 * 12 + 12 * 16 + 3 * 15 * 16) * 4);
  const Finished kimi = run(kNoMpirun, {"inspect", "--model", fixture_folder("kimilinear")});
  EXPECT_CONTAINS(kimi.out, "mixers                    Kimi delta attention, 8 heads, states of 12 x 12\n");
  const Finished text = run(kNoMpirun, {"inspect", "--model", fixture_folder("qwen3next")});
  expect_success(text);
  EXPECT_CONTAINS(text.out, "recurrent layers          3, 64 states for 16 sequences and their snapshots\n");
  EXPECT_CONTAINS(text.out, "states");
}

TEST(Inspect, ReportsErrors) {
  const CheckpointCopies copies;
  const auto folder = copies.copy("llama-gqa-bf16", "other");
  expect_one_error(
      run(kNoMpirun, {"inspect", "--model", folder, "--ranks", "9"}), 1,
      "cannot divide the model over 9 ranks: it has 8 attention heads, so at most 8 ranks can each own one");
  std::ofstream(folder / "config.json") << R"({"architectures": ["Rwkv7ForCausalLM"], "hidden_size": 768})";
  expect_one_error(run(kNoMpirun, {"inspect", "--model", folder}), 1,
                   "config.json: models of the family Rwkv7ForCausalLM are not supported; supported are ");
}

TEST(Bench, MeasuresEveryCombination) {
  const Finished finished =
      run(2, {"bench", "--synthetic", (fixture_folder("llama-gqa") / "config.json").string(), "--prompt",
              "8,16", "--generate", "4", "--batch", "1,3", "--json"});
  expect_success(finished);
  const std::vector<json> rows = json_lines(finished.out);
  ASSERT_EQ(rows.size(), 8U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const json& row = rows[i];
    EXPECT_EQ(row.at("phase"), i % 2 == 0 ? "prefill" : "decode");
    EXPECT_EQ(row.at("prompt"), i < 4 ? 8 : 16);
    EXPECT_EQ(row.at("batch"), i / 2 % 2 == 0 ? 1 : 3);
    EXPECT_EQ(row.at("tokens"), row.at("batch").get<int>() * (i % 2 == 0 ? row.at("prompt").get<int>() : 4));
    EXPECT_GT(row.at("tokens_per_s"), 0.0);
    EXPECT_EQ(row.at("all_reduces_per_step"), 2 * 2 + 1);
    EXPECT_EQ(row.at("per_rank").size(), 2U);
    EXPECT_GE(row.at("waiting_share"), 0.0);
    EXPECT_LT(row.at("collective_share").get<double>() + row.at("waiting_share").get<double>(), 1.0);
  }
}

// Two prompts begin per step, so the first sequence is some tokens ahead of the last one and ends first.
TEST(Bench, TimesOnlyStepsInWhichAllSequencesGenerate) {
  const std::string config = (fixture_folder("llama-gqa") / "config.json").string();
  const auto bench = [&](const char* generate) {
    return run(2, {"bench", "--synthetic", config, "--prompt", "32", "--prefill-chunk", "64", "--batch", "6",
                   "--generate", generate, "--json"});
  };
  const Finished finished = bench("8");
  expect_success(finished);
  const json row = json_lines(finished.out).at(1);
  const int steps = row.at("steps");
  EXPECT_GT(steps, 0);
  EXPECT_LE(steps, 8 - 2);
  EXPECT_EQ(row.at("tokens"), 6 * steps);
  const Finished too_few = bench("1");
  EXPECT_EQ(too_few.status, 1);
  EXPECT_CONTAINS(too_few.err,
                  "cannot measure batches of 6: the first sequence ends before the last one begins");
}

// The masks need the demo model's tokenizer.
TEST(Bench, ComparesStepsWithAndWithoutMasks) {
  const Finished finished =
      run(2, {"bench", "--prompt", "8", "--generate", "12", "--batch", "1,2", "--constraint", "--json"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  const std::vector<json> rows = json_lines(finished.out);
  ASSERT_EQ(rows.size(), 8U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].at("phase"), i % 4 == 0 ? "prefill" : i % 4 == 3 ? "masked" : "decode");
    EXPECT_EQ(rows[i].at("batch"), i < 4 ? 1 : 2);
  }
  EXPECT_CONTAINS(finished.err, "masks of 1 schemas: ");
  EXPECT_CONTAINS(finished.err, "masks of 2 schemas: ");
}

TEST(Bench, HeadersAreTwoSpacesApart) {
  const std::string config = (fixture_folder("llama-gqa") / "config.json").string();
  const Finished finished =
      run(kNoMpirun, {"bench", "--synthetic", config, "--prompt", "8", "--generate", "2"});
  expect_success(finished);
  EXPECT_CONTAINS(finished.out, "  of streaming  of arithmetic  collective  waiting\n");
}

TEST(Bench, TheTokensAreTheSameOnSeveralRanks) {
  const auto tokens = [&](std::size_t ranks) {
    return json_lines(
               run(ranks, {"bench", "--synthetic", (fixture_folder("llama-gqa") / "config.json").string(),
                           "--prompt", "8", "--generate", "6", "--json"})
                   .out)
        .at(1)
        .at("token_ids");
  };
  EXPECT_EQ(tokens(1).size(), 7U);
  EXPECT_EQ(tokens(1), tokens(4));
}

TEST(Bench, ChoosesLengthsThatFitTheModel) {
  const std::string config = (fixture_folder("llama-gqa") / "config.json").string();  // 256 positions
  const Finished finished = run(2, {"bench", "--synthetic", config, "--json"});
  expect_success(finished);
  const json decode = json_lines(finished.out).at(1);
  EXPECT_EQ(decode.at("prompt"), 128);
  EXPECT_EQ(decode.at("token_ids").size(), 65U);
}

TEST(Bench, RejectsOversizedRunsBeforeMeasuring) {
  const std::string config = (fixture_folder("llama-gqa") / "config.json").string();
  expect_one_error(run(2, {"bench", "--synthetic", config, "--prompt", "200", "--generate", "100"}), 1,
                   "cannot measure 200 + 100 tokens: a sequence holds 256");
  expect_one_error(run(kNoMpirun, {"bench", "--synthetic", config, "--prompt", "60", "--batch", "4",
                                   "--generate", "2", "--cache-tokens", "64"}),
                   1, "cannot measure batches of 4: they need a cache of 256 tokens, but it holds 64");
}

}  // namespace
}  // namespace tp::test
