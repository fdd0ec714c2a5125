// The forms of bench's results, and what repeated runs amount to.
#include "launch/bench_summary.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <algorithm>
#include <sstream>

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

TEST(BenchSummary, IsTheMedianOfTheRunsBehindTheFirst) {
  const BenchSummary several = summary_of({row_of(1), row_of(30), row_of(10), row_of(20), row_of(90)});
  EXPECT_EQ(several.runs, 4U);
  EXPECT_EQ(several.row.steps, 20U)
      << "of two in the middle the slower one, with all that was measured of it";
  EXPECT_EQ(several.least, 10.0);
  EXPECT_EQ(several.most, 90.0);
  EXPECT_EQ(several.spread(), 4.0);
  const BenchSummary one = summary_of({row_of(5)});
  EXPECT_EQ(one.runs, 1U);
  EXPECT_EQ(one.row.steps, 5U);
  EXPECT_EQ(one.spread(), 0.0);
}

TEST(Bench, SaysInJsonWhatItWasMeasuredWith) {
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

TEST(Bench, SaysTheSameInCsv) {
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
  EXPECT_NE(lines[0].find(": config.json on "), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find(", 2 ranks x 1 thread, cache in "), std::string::npos) << lines[0];
  EXPECT_EQ(
      lines[2],
      "| phase | batch | prompt | weights | tokens/s | spread | ms/step | of streaming | of arithmetic |");
  EXPECT_TRUE(lines[4].starts_with("| prefill | 1 | 8 | f32 | ")) << lines[4];
  for (std::size_t i = 2; i < lines.size(); ++i)
    EXPECT_EQ(std::ranges::count(lines[i], '|'), std::ranges::count(lines[2], '|')) << lines[i];
}

TEST(Bench, HasOneForm) {
  expect_one_error(
      bench({"--csv", "--json"}), 2,
      "--json, --csv and --markdown are three forms of the result: expected at most one of them");
}

}  // namespace
}  // namespace tp::test
