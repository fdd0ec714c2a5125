// tp-infer generate --speculate: different times, but the same texts.
#include "tests/doc_example.h"
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/run_line.h"
#include "tests/launch/text_model.h"
#include "tests/reference/drafter_fixture.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp::test {
namespace {

using nlohmann::json;

Finished run_commands(const std::string& commands) {
  const TemporaryDirectory directory;
  return run_line(commands, directory.path());
}

TEST(Speculate, TheGuidesExamplesGiveTheTextsWithoutSpeculation) {
  struct Example {
    std::string flag;
    std::string heading;
    int number = 1;
  };
  const Example examples[] = {
      {"--speculate ngram", "## From the text itself"},
      {"--speculate auto", "## From a draft model"},
      {"--speculate draft:" TP_SOURCE_FOLDER "/model/demo/eagle3:4", "## From a trained drafter", 2}};
  for (const auto& [flag, heading, number] : examples) {
    std::string commands = doc_example("runtime/speculation/README.md", heading, number);
    if (const std::size_t place = commands.find("model/demo/"); place != commands.npos)
      commands.insert(place, TP_SOURCE_FOLDER "/");
    ASSERT_NE(commands.find(flag), std::string::npos) << flag;
    const Finished speculated = run_commands(commands);
    EXPECT_EQ(speculated.status, 0) << speculated.err;
    EXPECT_CONTAINS(speculated.err, " draft tokens accepted");
    EXPECT_GT(speculated.out.size(), 100U);
    const Finished plain = run_commands(commands.replace(commands.find(flag), flag.size(), ""));
    EXPECT_EQ(plain.status, 0) << plain.err;
    EXPECT_EQ(plain.err.find("draft tokens"), std::string::npos) << plain.err;
    EXPECT_EQ(speculated.out, plain.out);
  }
}

TEST(Speculate, TheExampleOfEarlierAnswersDraftsThem) {
  const std::string flags = "--speculate ngram --draft-history 100000";
  std::string commands = doc_example("runtime/speculation/README.md", "## From earlier answers");
  ASSERT_NE(commands.find(flags), std::string::npos);
  const Finished drafted = run_commands(commands);
  EXPECT_EQ(drafted.status, 0) << drafted.err;
  const Finished plain = run_commands(commands.replace(commands.find(flags), flags.size(), ""));
  EXPECT_EQ(plain.status, 0) << plain.err;
  const auto lines = json_lines(drafted.out);
  const auto expected = json_lines(plain.out);
  ASSERT_EQ(lines.size(), 4U);
  ASSERT_EQ(expected.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(lines[i].at("token_ids"), expected[i].at("token_ids"));
  for (const std::size_t repeated : {2, 3}) {
    const json& timings = lines[repeated].at("timings");
    EXPECT_EQ(lines[repeated].at("token_ids"), lines[repeated - 2].at("token_ids"));
    EXPECT_GE(timings.at("accepted_tokens").get<double>(), 0.8 * lines[repeated].at("token_ids").size());
  }
}

TEST(Speculate, InspectNamesADrafterAndTheStreamsThatItReads) {
  const auto inspected = [](const std::string& fixture, bool json) {
    const std::filesystem::path folder = reference::drafter_fixture(fixture).draft;
    std::vector<std::string> arguments = {"inspect", "--model", folder.string(), "--ranks", "2"};
    if (json) arguments.emplace_back("--json");
    const Finished finished = run(kNoMpirun, arguments);
    EXPECT_EQ(finished.status, 0) << finished.err;
    return finished.out;
  };
  const std::string usual = inspected("eagle3-llama", false);
  EXPECT_CONTAINS(usual, "EAGLE-3");
  EXPECT_CONTAINS(usual, "after 2, L / 2 and L - 3 of the target's L layers");
  const std::string listed = inspected("dspark-qwen3", false);
  EXPECT_CONTAINS(listed, "DSpark");
  EXPECT_CONTAINS(listed, "after 2, 5, 7 layers of the target");
  const json drafter = json::parse(inspected("dflash-qwen3", true)).at("drafter");
  EXPECT_EQ(drafter.at("kind"), "DFlash");
  EXPECT_EQ(drafter.at("captured_places"), json({2, 4, 6}));
}

TEST(Speculate, RejectsADrafterAsTheModel) {
  const std::string folder = reference::drafter_fixture("eagle3-llama").draft.string();
  const Finished finished = run(1, {"generate", "--model", folder, "--prompt", "x"});
  EXPECT_NE(finished.status, 0);
  EXPECT_CONTAINS(finished.err, "found a trained drafter (EAGLE-3)");
}

TEST(Speculate, GivesTheSameTextsOnAnyRanks) {
  const TextModel model;
  const auto texts = [&](std::size_t ranks, const std::string& speculation) {
    const Finished finished =
        run(ranks, {"generate", "--model", model.path(), "--prompt", "The cat sat on the cat sat on the cat",
                    "--n", "3", "--seed", "5", "--temperature", "0.7", "--max-tokens", "60", "--ignore-eos",
                    "--same-bits", "--json", "--speculate", speculation});
    expect_success(finished);
    std::map<int, json> lines;
    for (const json& line : json_lines(finished.out)) {
      lines[line.at("sample").get<int>()] = line.at("token_ids");
      const bool drafts = line.at("timings").contains("drafted_tokens");
      EXPECT_EQ(drafts, speculation != "off") << line.at("timings");
      if (drafts) {
        EXPECT_GE(line.at("timings").at("drafted_tokens"), line.at("timings").at("accepted_tokens"));
      }
    }
    return lines;
  };
  const auto expected = texts(kNoMpirun, "off");
  EXPECT_EQ(expected.size(), 3U);
  for (const std::size_t ranks : {2, 3}) EXPECT_EQ(texts(ranks, "ngram:5:always"), expected) << ranks;
}

TEST(Speculate, IsOffForLinesThatTurnItOff) {
  const TextModel model;
  const TemporaryDirectory directory;
  directory.write("batch.jsonl",
                  R"({"id": 1, "prompt": "a b a b a b a b", "speculate": false}
{"id": 2, "prompt": "a b a b a b a b"}
{"id": 3, "prompt": "x", "speculate": "no"}
)");
  const Finished finished = run(
      kNoMpirun, {"generate", "--model", model.path(), "--batch", (directory.path() / "batch.jsonl").string(),
                  "--greedy", "--max-tokens", "40", "--ignore-eos", "--speculate", "ngram:8:always"});
  EXPECT_EQ(finished.status, 1);
  std::map<int, json> lines;
  for (const json& line : json_lines(finished.out)) lines[line.at("id").get<int>()] = line;
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_FALSE(lines[1].at("timings").contains("drafted_tokens"));
  EXPECT_TRUE(lines[2].at("timings").contains("drafted_tokens"));
  EXPECT_EQ(lines[1].at("text"), lines[2].at("text"));
  EXPECT_CONTAINS(lines[3].at("error").get<std::string>(),
                  "`speculate`: expected true or false, found \"no\"")
      << lines[3];
}

TEST(Speculate, AModelThatIsItsOwnDraftModelIsAlwaysRight) {
  const TextModel model;
  const auto answer = [&](std::size_t ranks, const std::string& speculation) {
    return run(ranks, {"generate", "--model", model.path(), "--prompt", "The cat", "--seed", "5",
                       "--temperature", "0.8", "--max-tokens", "50", "--ignore-eos", "--same-bits",
                       "--verbose", "--json", "--speculate", speculation});
  };
  const Finished plain = answer(kNoMpirun, "off");
  EXPECT_EQ(plain.status, 0) << plain.err;
  for (const std::size_t ranks : {1, 2}) {
    const Finished drafted = answer(ranks, "draft:" + model.path() + ":5:always");
    EXPECT_EQ(drafted.status, 0) << drafted.err;
    const json line = json_lines(drafted.out).front();
    EXPECT_EQ(line.at("token_ids"), json_lines(plain.out).front().at("token_ids"));
    EXPECT_GE(line.at("timings").at("drafted_tokens"), 35);
    EXPECT_EQ(line.at("timings").at("accepted_tokens"), line.at("timings").at("drafted_tokens"));
    EXPECT_CONTAINS(drafted.err, "draft model LlamaForCausalLM");
  }
}

TEST(Speculate, AutoUsesTheDraftModelInTheModelsFolder) {
  const TextModel model;
  const TemporaryDirectory directory;
  std::filesystem::copy(model.path(), directory.path(), std::filesystem::copy_options::recursive);
  const auto notes = [&] {
    const Finished finished =
        run(kNoMpirun, {"generate", "--model", directory.path().string(), "--prompt", "The cat",
                        "--max-tokens", "5", "--verbose", "--speculate", "auto:4"});
    EXPECT_EQ(finished.status, 0) << finished.err;
    return finished.err;
  };
  EXPECT_EQ(notes().find("draft model "), std::string::npos);
  std::filesystem::copy(model.path(), directory.path() / "draft", std::filesystem::copy_options::recursive);
  EXPECT_CONTAINS(notes(), "draft model LlamaForCausalLM");
}

TEST(Speculate, NamesAnUnusableDraftModel) {
  const TextModel model;
  const auto refusal = [&](const std::string& draft) {
    const Finished finished =
        run(2, {"generate", "--model", model.path(), "--prompt", "The cat", "--speculate", "draft:" + draft});
    EXPECT_EQ(finished.status, 1);
    return finished.err;
  };
  EXPECT_CONTAINS(refusal("/no/such/folder"), "cannot open /no/such/folder");
  const std::string other = refusal(fixture_folder("llama-12q3kv").string());
  EXPECT_CONTAINS(other, "expected a vocabulary of");
  EXPECT_CONTAINS(other, "use a draft model with the same tokenizer");
}

}  // namespace
}  // namespace tp::test
