// Parts of the run time: in bench, in generate --json, and in --trace.

#include "tests/launch/program.h"
#include "tests/launch/text_model.h"
#include "tests/reference/fixture.h"

#include <fstream>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

constexpr const char* kParts[] = {"compute", "collectives", "waiting", "sampling", "control"};

// Expects that all parts exist, none is negative, and their sum is the whole within 2 %.
void expect_parts(const json& parts, double whole) {
  double sum = 0.0;
  for (const char* part : kParts) {
    EXPECT_GE(parts.at(part).get<double>(), 0.0) << part;
    sum += parts.at(part).get<double>();
  }
  EXPECT_NEAR(sum, whole, 0.02 * whole) << parts;
}

TEST(GenerateTimings, ListThePartsOfATokensTime) {
  const TextModel model;
  for (const std::size_t ranks : {1, 3}) {
    const Finished finished = run(ranks, {"generate", "--model", model.path(), "--prompt", "The cat sat",
                                          "--json", "--max-tokens", "200", "--ignore-eos"});
    expect_success(finished);
    const json timings = json_lines(finished.out).at(0).at("timings");
    expect_parts(timings.at("first_token_ms"), 1000 * timings.at("first_token_s").get<double>());
    expect_parts(timings.at("ms_per_token"), 1000 * timings.at("decode_s").get<double>() / 199);
    EXPECT_GT(timings.at("ms_per_token").at("sampling"), 0.0);
    EXPECT_GT(timings.at("ms_per_token").at("collectives"), 0.0);
  }
}

TEST(BenchShares, SumToOne) {
  const std::string config = (fixture_folder("llama-gqa") / "config.json").string();
  const Finished finished =
      run(2, {"bench", "--synthetic", config, "--prompt", "64", "--generate", "60", "--json"});
  expect_success(finished);
  const std::vector<json> rows = json_lines(finished.out);
  ASSERT_EQ(rows.size(), 2U);
  for (const json& row : rows) {
    double sum = 0.0;
    for (const char* share :
         {"compute_share", "collective_share", "waiting_share", "sampling_share", "control_share"}) {
      EXPECT_GE(row.at(share).get<double>(), 0.0) << share;
      sum += row.at(share).get<double>();
    }
    EXPECT_NEAR(sum, 1.0, 0.02) << row;
    EXPECT_LT(row.at("slowest_rank").get<std::size_t>(), 2U);
  }
}

// Checks every number in a document that is not whole.
void expect_few_digits(const json& value) {
  constexpr std::size_t kDigits = 9;  // enough digits to distinguish all floats
  const json flat = value.flatten();
  for (const auto& [path, number] : flat.items()) {
    if (!number.is_number_float()) continue;
    // nlohmann's dump() prints a few numbers with 16 digits although fewer identify them.
    std::string digits = fmt::format("{}", number.get<double>());
    digits = digits.substr(0, digits.find('e'));
    std::erase_if(digits, [](char c) { return c == '-' || c == '.'; });
    digits.erase(0, digits.find_first_not_of('0'));
    EXPECT_LE(digits.size(), kDigits) << path << ": " << number;
  }
}

TEST(JsonNumbers, HaveNoMoreDigitsThanTheyMean) {
  const TextModel model;
  const std::string text = model.path() + "/text.txt";
  std::ofstream(text) << "The cat sat on the mat";
  for (const Arguments& arguments : std::vector<Arguments>{
           {"generate", "--prompt", "Hi", "--json", "--max-tokens", "5", "--logprobs", "2"},
           {"bench", "--prompt", "16", "--generate", "7", "--json"},
           {"perplexity", "--file", text, "--json"},
           {"inspect", "--json"}}) {
    SCOPED_TRACE(arguments.front());
    Arguments command = {arguments.front(), "--model", model.path()};
    command.insert(command.end(), arguments.begin() + 1, arguments.end());
    const Finished finished = run(kNoMpirun, command);
    expect_success(finished);
    if (arguments.front() == "inspect")
      expect_few_digits(json::parse(finished.out));
    else
      for (const json& line : json_lines(finished.out)) expect_few_digits(line);
  }
}

TEST(Trace, HasARowForEveryRankWithEveryCollective) {
  const TextModel model;
  const std::string path = model.path() + "/trace.json";
  for (const std::size_t ranks : {1, 3}) {
    const Finished finished = run(ranks, {"generate", "--model", model.path(), "--prompt", "The cat sat",
                                          "--trace", path, "--max-tokens", "5", "--ignore-eos"});
    expect_success(finished);
    std::ifstream file(path);
    const json trace = json::parse(file);
    std::map<std::string, std::vector<std::size_t>> counts;  // counts of each rank
    std::vector<std::string> names(ranks);
    for (const json& event : trace.at("traceEvents")) {
      const auto rank = event.at("tid").get<std::size_t>();
      ASSERT_LT(rank, ranks);
      if (event.at("ph") == "M") {
        names[rank] = event.at("args").at("name");
        continue;
      }
      EXPECT_GE(event.at("dur").get<double>(), 0.0);
      auto& count = counts[event.at("name")];
      count.resize(ranks);
      count[rank] += 1;
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(names[rank].starts_with("rank " + std::to_string(rank) + " on ")) << names[rank];
      EXPECT_EQ(counts.at("step")[rank], 5U);
      EXPECT_EQ(counts.at("attention")[rank], counts.at("feed_forward")[rank]);
      EXPECT_EQ(counts.at("all_reduce")[rank], 2 * counts.at("attention")[rank] + 5);
      EXPECT_EQ(counts.at("logits")[rank], 5U);
      EXPECT_EQ(counts.at("sample")[rank], rank == 0 ? 5U : 0U);
    }
  }
}

TEST(Trace, IsRefusedBeforeAnythingIsLoaded) {
  expect_one_error(run(2, {"generate", "--prompt", "x", "--trace", "/proc/nonexistent/trace.json"}), 1,
                   "cannot open /proc/nonexistent/trace.json for the trace: No such file or directory");
}

TEST(Trace, NamesItsFileIfTheDiskIsFull) {
  const Finished finished =
      run(kNoMpirun, {"generate", "--prompt", "x", "--max-tokens", "2", "--trace", "/dev/full"});
  EXPECT_EQ(finished.status, 1);
  EXPECT_CONTAINS(finished.err, "tp-infer: cannot write to /dev/full: No space left on device");
}

}  // namespace
}  // namespace tp::test
