// tp-infer plan, and options that divide a model.

#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"
#include "tests/reference/fixture.h"

#include <cmath>
#include <sstream>
#include <utility>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

std::string llama_1b() { return TP_SOURCE_FOLDER "/bench/shapes/llama-1b.json"; }

json planned(Arguments more) {
  Arguments arguments = {"plan", "--model", llama_1b(), "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Finished finished = run(kNoMpirun, arguments);
  expect_success(finished);
  return json::parse(finished.out);
}

json inspected(const std::string& ranks) {
  const Finished finished =
      run(kNoMpirun, {"inspect", "--model", llama_1b(), "--ranks", ranks, "--weights", "int4", "--json"});
  expect_success(finished);
  return json::parse(finished.out);
}

TEST(Plan, HasTheWeightsThatInspectShows) {
  const json plan = planned({"--weights", "int4", "--ranks-per-host", "2"});
  for (const json& row : plan.at("tensor")) {
    const auto ranks = row.at("ranks").get<std::size_t>();
    const json shares = inspected(std::to_string(ranks)).at("ranks");
    std::size_t bytes = 0;
    for (std::size_t rank = 0; rank < std::min<std::size_t>(ranks, 2); ++rank)
      bytes += shares[rank].at("weight_bytes").get<std::size_t>();
    EXPECT_EQ(row.at("host_weight_bytes"), bytes) << ranks;
  }
  EXPECT_EQ(plan.at("tensor").size(), 6U) << "1 to 32 ranks";
  EXPECT_CONTAINS(plan.at("tensor_ends").get<std::string>(), "it has 32 attention heads");
}

// Sentences may be longer.
TEST(Plan, HasTablesOfAtMostAHundredColumns) {
  const Finished finished =
      run(kNoMpirun, {"plan", "--model", TP_SOURCE_FOLDER "/bench/shapes/deepseek-v3.json", "--weights",
                      "int4", "--ranks-per-host", "2", "--hosts", "8"});
  expect_success(finished);
  std::istringstream lines(finished.out);
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool is_row =
        line.find_first_not_of(" 0123456789") != line.find_first_not_of(' ') && line.find('%') != line.npos;
    rows += is_row ? 1 : 0;
    if (is_row || line.find("decode x") != line.npos) {
      EXPECT_LE(line.size(), 100U) << line;
    }
  }
  EXPECT_GE(rows, 8U) << finished.out;
}

// Returns the line of `inspect` that begins with this name, without the name.
std::string inspected_line(const std::string& fixture, const std::string& name) {
  const Finished finished = run(kNoMpirun, {"inspect", "--model", reference::fixture(fixture).folder});
  expect_success(finished);
  std::istringstream lines(finished.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + " ")) return line.substr(line.find_first_not_of(' ', name.size()));
  }
  return "none";
}

TEST(Inspect, CountsTheTensorsOfMultiTokenPrediction) {
  EXPECT_EQ(inspected_line("qwen35", "multi-token prediction"), "15 tensors, used by --speculate mtp");
  EXPECT_EQ(inspected_line("llama-gqa", "multi-token prediction"), "none");
  for (const auto& [name, tensors] : {std::pair{"qwen35", 15}, {"llama-gqa", 0}}) {
    const Finished finished =
        run(kNoMpirun, {"inspect", "--model", reference::fixture(name).folder, "--json"});
    expect_success(finished);
    EXPECT_EQ(json::parse(finished.out).at("next_token_tensors"), tensors) << name;
  }
}

TEST(Inspect, DescribesMamba1Mixers) {
  EXPECT_EQ(inspected_line("mamba1", "mixers"), "Mamba-1, 128 channels, states of 16");
  EXPECT_EQ(inspected_line("llama-gqa", "mixers"), "none");
}

TEST(Plan, UsesEveryNumberThatItIsGiven) {
  const Arguments some = {"--bandwidth", "20GB/s", "--flops", "0.2T", "--net", "100us,1Gb", "--batch", "1"};
  const auto of_two = [](const json& plan) { return plan.at("tensor")[1].at("decode")[0]; };
  const json base = of_two(planned(some));
  const auto with = [&](std::size_t index, const std::string& value) {
    Arguments changed = some;
    changed[index] = value;
    return of_two(planned(changed));
  };
  const auto ratio = [&](const json& changed, const char* part) {
    return changed.at(part).get<double>() / base.at(part).get<double>();
  };
  EXPECT_NEAR(ratio(with(1, "40GB/s"), "memory_ms"), 0.5, 0.001);
  EXPECT_NEAR(ratio(with(3, "400G"), "arithmetic_ms"), 0.5, 0.001);
  EXPECT_NEAR(ratio(with(5, "0.2ms,1Gb"), "latency_ms"), 2.0, 0.02);
  EXPECT_NEAR(ratio(with(5, "100us,125MB/s"), "transfer_ms"), 1.0, 0.001);
  EXPECT_NEAR(ratio(with(5, "100us,500Mb"), "transfer_ms"), 2.0, 0.001);
}

TEST(Plan, ConsidersTheHostsTraffic) {
  const Arguments slow = {"--net", "100us,1Gb"};
  const auto prefill_of_two = [&](const char* wire) {
    Arguments arguments = slow;
    arguments.insert(arguments.end(), {"--wire", wire});
    const json plan = planned(arguments);
    EXPECT_EQ(plan.at("wire"), wire);
    return plan.at("tensor")[1].at("prefill").at("transfer_ms").get<double>();
  };
  EXPECT_NEAR(prefill_of_two("bf16") / prefill_of_two("f32"), 0.5, 0.001);
  EXPECT_NEAR(prefill_of_two("int8") / prefill_of_two("f32"), 34.0 / 128, 0.001);
  const Finished both = run(kNoMpirun, {"plan", "--model", llama_1b(), "--wire", "int8", "--same-bits"});
  expect_one_error(both, 1, "--same-bits needs the --wire type f32, found int8");
}

TEST(Plan, DescribesTheRequestedHosts) {
  const json fits = planned({"--hosts", "4", "--ranks-per-host", "4", "--memory", "8G", "--batch", "1,16"});
  EXPECT_TRUE(fits.at("asked").at("fits").get<bool>());
  EXPECT_DOUBLE_EQ(fits.at("asked").at("cache_copies").get<double>(), 1.0) << "2 KV heads on each host";
  EXPECT_DOUBLE_EQ(planned({"--hosts", "4", "--ranks-per-host", "4", "--memory", "8G", "--kv-slices", "off"})
                       .at("asked")
                       .at("cache_copies")
                       .get<double>(),
                   2.0)
      << "8 KV heads on 16 ranks";
  EXPECT_EQ(fits.at("asked_pipeline").at("stages"), 4);
  const json small = planned({"--hosts", "2", "--memory", "200M"});
  EXPECT_FALSE(small.at("asked").at("fits").get<bool>());
  EXPECT_CONTAINS(small.at("asked").at("refusal").get<std::string>(),
                  "only 200.0 MiB are available (--memory)");
  EXPECT_GT(small.at("fewest_hosts").get<std::size_t>(), 2U);
}

// The model has 32,768 positions. A token of its cache in bf16 takes 2 x 16 layers x 8 heads x 64 x 2 bytes.
TEST(Plan, TakesMemoryAndTimeFromOneContext) {
  const auto of_one = [](const json& plan) { return plan.at("tensor")[0]; };
  const auto plan_with = [&](const std::string& context, const std::string& memory) {
    return planned({"--batch", "16", "--context", context, "--memory", memory, "--weights", "int4"});
  };
  constexpr std::size_t kTokenBytes = 2 * 16 * 8 * 64 * 2;
  const json longest = plan_with("32768", "1T");
  EXPECT_FALSE(longest.contains("longest_sequence"));
  EXPECT_TRUE(of_one(longest).at("fits").get<bool>());
  for (const char* memory : {"17G", "1T"}) {
    const json beyond = plan_with("1000000", memory);
    EXPECT_EQ(beyond.at("longest_sequence"), 32768U);
    EXPECT_FALSE(of_one(beyond).at("fits").get<bool>());
    EXPECT_TRUE(beyond.at("fewest_hosts").is_null());
    const std::size_t more = of_one(beyond).at("host_bytes").get<std::size_t>() -
                             of_one(longest).at("host_bytes").get<std::size_t>();
    const auto tokens = 16.0 * (1000001 - 32768);
    EXPECT_NEAR(static_cast<double>(more), tokens * kTokenBytes, 0.001 * tokens * kTokenBytes);
  }
  for (const char* option : {"--context", "--prompt"}) {
    const Finished finished =
        run(kNoMpirun, {"plan", "--model", llama_1b(), "--batch", "1", option, "1000000", "--memory", "17G"});
    EXPECT_CONTAINS(finished.out, "notice: sequences of this model have at most 32768 tokens");
    EXPECT_EQ(finished.out.find(" yes "), std::string::npos) << finished.out;
  }
}

// The model has fewer positions than the default prompt has tokens.
TEST(Plan, StaysWithinTheModelsPositions) {
  const Finished finished =
      run(kNoMpirun, {"plan", "--json", "--model", fixture_folder("llama-gqa").string()});
  expect_success(finished);
  const json plan = json::parse(finished.out);
  EXPECT_FALSE(plan.contains("longest_sequence"));
  EXPECT_TRUE(plan.at("tensor")[0].at("fits").get<bool>());
}

TEST(Plan, DrawsThePartsOfAStep) {
  const Finished finished =
      run(kNoMpirun, {"plan", "--model", llama_1b(), "--hosts", "2", "--net", "1ms,100Mb"});
  expect_success(finished);
  EXPECT_CONTAINS(finished.out, "\n    1 |##");
  EXPECT_CONTAINS(finished.out, "~~~~");
  EXPECT_CONTAINS(finished.out, "stops paying at ");
  EXPECT_CONTAINS(finished.out, "2 stages: ");
}

TEST(Plan, RefusesSharesThatNoRowWouldUse) {
  const auto finished = [](const std::string& split, const Arguments& more) {
    Arguments arguments = {"plan", "--model", llama_1b(), "--split", split};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(kNoMpirun, arguments);
  };
  expect_one_line(
      finished("1,2", {"--hosts", "2", "--ranks-per-host", "2"}), 1,
      "expected a number of --split for each of the 4 ranks (--hosts 2 times --ranks-per-host 2), "
      "found 2; change one of the three");
  expect_one_line(
      finished("1,2,1", {}), 1,
      "expected one of the table's numbers of ranks, 1, 2, 4, ... 1024, found 3 numbers of --split; "
      "name the ranks with --hosts and --ranks-per-host");
  expect_success(finished("1,2,1", {"--hosts", "3", "--ranks-per-host", "1"}));
  expect_success(finished("1,2", {}));
}

TEST(Plan, RefusesAListWithAnEmptyPart) {
  for (const char* command : {"plan", "bench"}) {
    for (const auto& [list, part] : std::vector<std::pair<std::string, std::string>>{
             {"1,,2", "an empty text"}, {",1", "an empty text"}, {"1,", "an empty text"}, {"1,x", "x"}})
      expect_one_line(run(kNoMpirun, {command, "--batch", list}), 2,
                      "--batch: expected a whole number from 1 to 4096, found " + part);
  }
  EXPECT_EQ(planned({"--batch", "2,4"}).at("tensor")[0].at("decode").size(), 2U);
}

TEST(Plan, CountsOneHostInTheSingular) {
  const auto text = [](const std::string& ranks) {
    return run(kNoMpirun, {"plan", "--model", llama_1b(), "--hosts", "1", "--ranks-per-host", ranks}).out;
  };
  EXPECT_CONTAINS(text("1"), "\n1 host x 1 rank:\n");
  EXPECT_CONTAINS(text("2"), "\n1 host x 2 ranks:\n");
}

TEST(Plan, RejectsInvalidQuantities) {
  const auto refuses = [](const std::string& option, const std::string& value, const std::string& message) {
    expect_one_line(run(kNoMpirun, {"plan", option, value}), 2, message);
  };
  const std::string order =
      "--net: expected latency, rate and, optionally, time per message, in this order, such as 30us,10Gb,5us";
  const std::string seconds = "expected a number from 1e-12 to 1e+18 seconds with a unit, such as ";
  refuses("--net", "30us", order + ", found 1 part: 30us");
  refuses("--net", "", order + ", found 1 part: an empty text");
  refuses("--net", "30us,10Gb,5us,1us", order + ", found 4 parts: 30us,10Gb,5us,1us");
  refuses("--net", "10Gb,30us", order + "; for the latency, " + seconds + "30us, found 10Gb");
  refuses("--net", "30,10Gb", order + "; for the latency, " + seconds + "30us, found 30");
  refuses("--net", "30us,",
          order +
              "; for the rate, expected a number from 1e-12 to 1e+18 bytes per second with a unit, such as "
              "10Gb, found an empty text");
  refuses("--net", "30us,10Gb,5", order + "; for the time per message, " + seconds + "5us, found 5");
  refuses("--bandwidth", "-3GB/s",
          "--bandwidth: expected a number from 1e-12 to 1e+18 bytes per second with a unit, such as 200GB/s, "
          "found -3GB/s");
  refuses("--bandwidth", "fast", "found fast");
  refuses("--flops", "0", "found 0");
  refuses("--memory", "1e30G",
          "--memory: expected a number from 1e-12 to 1e+18 bytes with a unit, such as 256G, found 1e30G");
  refuses("--memory", "", "found an empty text");
  refuses("--hosts", "0", "expected a whole number from 1 to 1024, found 0");
  refuses("--split", "1,x", "expected a number > 0 for every rank, such as 2,1,1, found 1,x");
  refuses("--threads", "2", "--threads");
}

TEST(Plan, ProbePrintsFlagsThatPlanTakes) {
  for (const std::size_t ranks : {std::size_t{kNoMpirun}, std::size_t{2}}) {
    const Finished probed = run(ranks, {"plan", "--probe", "--threads", "1"});
    expect_success(probed);
    std::istringstream words(probed.out);
    Arguments arguments = {"plan", "--model", llama_1b(), "--json"};
    for (std::string word; words >> word;) arguments.push_back(word);
    const Finished finished = run(kNoMpirun, arguments);
    expect_success(finished);
    const json cluster = json::parse(finished.out).at("cluster");
    EXPECT_EQ(cluster.at("ranks_per_host"), std::max<std::size_t>(ranks, 1));
    EXPECT_GT(cluster.at("bandwidth_gb_s"), 0.01);
    EXPECT_GT(cluster.at("tflops"), 0.0001);
  }
}

TEST(Split, DividesAsInspectShowsAndGivesTheSameText) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const Finished shares =
      run(kNoMpirun, {"inspect", "--model", fixture.folder, "--ranks", "2", "--split", "3,1", "--json"});
  expect_success(shares);
  const json ranks = json::parse(shares.out).at("ranks");
  const auto heads = [&](std::size_t rank) {
    return ranks[rank].at("query_heads")[1].get<int>() - ranks[rank].at("query_heads")[0].get<int>();
  };
  EXPECT_EQ(heads(0), 3 * heads(1));
  Arguments generate = {
      "generate",     "--model", fixture.folder, "--tokens",      (fixture.folder / "prompt.json").string(),
      "--max-tokens", "8",       "--same-bits",  "--temperature", "0",
      "--json"};
  const auto tokens = [](const Finished& finished) {
    expect_success(finished);
    return json::parse(finished.out).at("token_ids");
  };
  const json even = tokens(run(2, generate));
  generate.insert(generate.end(), {"--split", "3,1"});
  EXPECT_EQ(tokens(run(2, generate)), even);
}

TEST(Split, NeedsAShareForEveryRank) {
  expect_one_error(run(2, {"generate", "--prompt", "Hello", "--split", "2,1,1"}), 1,
                   "--split must have a number > 0 for each of the 2 ranks, found 2,1,1");
}

TEST(PretendRanks, MeasureTheShareOfOneOfMany) {
  const std::string tiny = std::string(TP_SOURCE_FOLDER) + "/bench/shapes/llama-tiny.json";
  const auto bench = [&](Arguments more) {
    Arguments arguments = {"bench", "--synthetic", tiny, "--prompt", "8", "--generate", "2", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished finished = run(1, arguments);
    expect_success(finished);
    return json_lines(finished.out).back();
  };
  const json one = bench({});
  const json of_eight = bench({"--pretend-ranks", "8"});
  EXPECT_EQ(of_eight.at("pretend_ranks"), 8);
  EXPECT_NEAR(of_eight.at("weight_bytes_per_step").get<double>(),
              one.at("weight_bytes_per_step").get<double>() / 8,
              0.15 * one.at("weight_bytes_per_step").get<double>() / 8);
  expect_one_error(
      run(2, {"bench", "--synthetic", tiny, "--prompt", "8", "--generate", "2", "--pretend-ranks", "1"}), 1,
      "cannot pretend that there are 1 ranks");
  expect_one_error(
      run(1, {"bench", "--synthetic", tiny, "--prompt", "8", "--generate", "2", "--pretend-ranks", "9"}), 1,
      "it has 8 attention heads");
}

}  // namespace
}  // namespace tp::test
