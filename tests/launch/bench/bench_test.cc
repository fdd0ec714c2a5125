// The formats of bench's results, and the summary of repeated runs.
#include "launch/bench/bench_summary.h"
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"
#include "tests/temporary_directory.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

Finished bench(const Arguments& more) {
  Arguments arguments = {"bench",    "--synthetic", (fixture_folder("llama-gqa") / "config.json").string(),
                         "--prompt", "8",           "--generate",
                         "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(2, arguments);
}

BenchRow row_of(std::size_t tokens) {
  BenchRow row;
  row.tokens = tokens;
  row.seconds = 1.0;
  row.steps = tokens;
  return row;
}

TEST(BenchSummary, IsTheMedianOfTheRunsAfterTheFirst) {
  const BenchSummary several = summary_of({row_of(1), row_of(30), row_of(10), row_of(20), row_of(90)});
  EXPECT_EQ(several.runs, 4U);
  EXPECT_EQ(several.row.steps, 20U)
      << "of two in the middle the slower one, with all that was measured of it";
  EXPECT_EQ(several.min, 10.0);
  EXPECT_EQ(several.max, 90.0);
  EXPECT_EQ(several.spread(), 4.0);
  const BenchSummary one = summary_of({row_of(5)});
  EXPECT_EQ(one.runs, 1U);
  EXPECT_EQ(one.row.steps, 5U);
  EXPECT_EQ(one.spread(), 0.0);
}

TEST(Bench, ReportsItsSetupInJson) {
  const Finished finished = bench({"--json", "--repeat", "3", "--batch", "1,2"});
  expect_success(finished);
  const std::vector<json> rows = json_lines(finished.out);
  ASSERT_EQ(rows.size(), 4U) << "a row for all runs";
  for (const json& row : rows) {
    EXPECT_EQ(row.at("runs"), 3);
    EXPECT_LE(row.at("tokens_per_s_least"), row.at("tokens_per_s"));
    EXPECT_GE(row.at("tokens_per_s_most"), row.at("tokens_per_s"));
    EXPECT_EQ(row.at("model"), "config.json");
    for (const char* field : {"version", "date", "cpu", "isa", "mpi", "weights", "kv_type"})
      EXPECT_NE(row.at(field), "") << field;
    EXPECT_TRUE(row.contains("commit"));
    const double before = row.at("streaming_gb_s_before");
    const double after = row.at("streaming_gb_s_after");
    EXPECT_GT(std::min(before, after), 0.0);
    EXPECT_NEAR(row.at("streaming_gb_s").get<double>(), (before + after) / 2, 1e-3 * (before + after));
  }
}

// A decoding step reads one row of the embedding, and only the experts that its tokens are routed to. The
// expected bytes come from the sizes in the configuration.
TEST(Bench, CountsTheWeightsAndTheCacheThatAStepReads) {
  const TemporaryDirectory folder;
  constexpr std::size_t kHidden = 64;
  constexpr std::size_t kExpert = 32;
  constexpr std::size_t kVocab = 256;
  const auto config =
      folder.write("config.json",
                   R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 64,
             "intermediate_size": 32, "num_local_experts": 16, "num_experts_per_tok": 2, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "rms_norm_eps": 1e-5,
             "max_position_embeddings": 512, "rope_theta": 10000.0, "tie_word_embeddings": false})");
  const Finished finished = run(1, {"bench", "--synthetic", config.string(), "--weights", "f32", "--kv-type",
                                    "f32", "--prompt", "8", "--generate", "4", "--batch", "1,3", "--json"});
  expect_success(finished);
  const std::size_t attention = kHidden * (64 + 2 * 32) + 64 * kHidden;
  const std::size_t norms = 2 * kHidden;
  const std::size_t router = 16 * kHidden;
  const double dense = 2 * static_cast<double>(attention + norms + router) + kVocab * kHidden + kHidden;
  const double experts = 2.0 * 16 * 3 * kHidden * kExpert;
  for (const json& row : json_lines(finished.out)) {
    if (row.at("phase") != "decode") continue;
    const double batch = row.at("batch");
    const double touched = 1 - std::pow(1 - 2.0 / 16, batch);
    EXPECT_NEAR(row.at("weight_bytes_per_step").get<double>(), 4 * (dense + experts * touched), 4 * 64.0)
        << batch;
    // Keys and values of 2 heads of 16 in 2 layers, for 8 to 12 tokens.
    const double of_token = 2.0 * 2 * 2 * 16 * 4;
    EXPECT_GE(row.at("cache_bytes_per_step").get<double>(), batch * 8 * of_token);
    EXPECT_LE(row.at("cache_bytes_per_step").get<double>(), batch * 12 * of_token);
  }
}

TEST(Bench, ReportsItsSetupInCsv) {
  const Finished finished = bench({"--csv"});
  expect_success(finished);
  const std::vector<std::string> lines = lines_of(finished.out);
  ASSERT_EQ(lines.size(), 3U);
  const auto cells = [](const std::string& line) {
    bool quoted = false;
    std::size_t count = 1;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) ++count;
    }
    return count;
  };
  EXPECT_TRUE(lines[0].starts_with("phase,batch,prompt,tokens,steps,runs,tokens_per_s,")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("prefill,1,8,8,1,1,")) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("decode,1,8,4,4,1,")) << lines[2];
  for (const std::string& line : lines) EXPECT_EQ(cells(line), cells(lines[0])) << line;
}

TEST(Bench, PrintsATableInMarkdown) {
  const Finished finished = bench({"--markdown", "--repeat", "2"});
  expect_success(finished);
  const std::vector<std::string> lines = lines_of(finished.out);
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_TRUE(lines[0].starts_with("tp-infer ")) << lines[0];
  EXPECT_CONTAINS(lines[0], ": config.json on ");
  EXPECT_CONTAINS(lines[0], ", 2 ranks x 1 thread, cache in ");
  EXPECT_EQ(
      lines[2],
      "| phase | batch | prompt | weights | tokens/s | spread | ms/step | of streaming | of arithmetic |");
  EXPECT_TRUE(lines[4].starts_with("| prefill | 1 | 8 | f32 | ")) << lines[4];
  for (std::size_t i = 2; i < lines.size(); ++i)
    EXPECT_EQ(std::ranges::count(lines[i], '|'), std::ranges::count(lines[2], '|')) << lines[i];
}

TEST(Bench, HasOneForm) {
  expect_one_error(bench({"--csv", "--json"}), 2,
                   "--json, --csv and --markdown are formats of the result: expected at most one");
}

}  // namespace
}  // namespace tp::test
