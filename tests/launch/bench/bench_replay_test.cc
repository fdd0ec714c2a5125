// tp-infer bench --acceptance-trace: the acceptance of draft tokens matches the texts in the file.
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"
#include "tests/reference/fixture.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp::test {
namespace {

using nlohmann::json;

// Writes a text that repeats the first 20 tokens of its prompt three times, and one without repetitions.
std::filesystem::path write_texts(const TemporaryDirectory& directory) {
  json again = {{"name", "again"}, {"prompt_ids", json::array()}, {"token_ids", json::array()}};
  json never = {{"name", "never"}, {"prompt_ids", json::array()}, {"token_ids", json::array()}};
  for (int i = 0; i < 20; ++i) again["prompt_ids"].push_back(100000 + i);
  for (int i = 0; i < 60; ++i) again["token_ids"].push_back(100000 + i % 20);
  for (int i = 0; i < 10; ++i) never["prompt_ids"].push_back(i);
  for (int i = 0; i < 40; ++i) never["token_ids"].push_back(10 + i);
  const std::filesystem::path file = directory.path() / "texts.jsonl";
  std::ofstream(file) << again.dump() << "\n\n" << never.dump() << "\n";
  return file;
}

std::string tiny_config() { return (reference::fixture("llama-gqa").folder / "config.json").string(); }

TEST(BenchReplay, AcceptsTheTextsShareOfDraftTokens) {
  const TemporaryDirectory directory;
  const Finished finished =
      run(2, {"bench", "--synthetic", tiny_config(), "--same-bits", "--speculate", "ngram:8:always",
              "--acceptance-trace", write_texts(directory).string(), "--batch", "1,2", "--json"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  const std::vector<json> rows = json_lines(finished.out);
  ASSERT_EQ(rows.size(), 6U);
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(rows[i].at("phase"), i % 2 == 0 ? "decode" : "drafted");
  EXPECT_EQ(rows[1].at("text"), "again");
  EXPECT_EQ(rows[1].at("tokens"), 59);
  EXPECT_EQ(rows[1].at("token_ids"), rows[0].at("token_ids"));
  // The first token after the prompt shows the repetition. The model chooses one token after eight draft
  // tokens.
  EXPECT_LE(rows[1].at("steps"), 9);
  EXPECT_GE(rows[1].at("accepted_tokens"), 49);
  EXPECT_EQ(rows[3].at("text"), "never");
  EXPECT_EQ(rows[3].at("steps"), 39);
  EXPECT_FALSE(rows[3].contains("accepted_tokens"));
  EXPECT_EQ(rows[5].at("text"), "2 texts");
  EXPECT_CONTAINS(finished.err, "again: ");
  EXPECT_CONTAINS(finished.err, " times as fast with drafts");
}

// The draft model draws with the same noise as in the text that it wrote.
TEST(BenchReplay, ADraftModelIsRightAboutTheTextsThatItWrote) {
  const TextModel model;
  const TemporaryDirectory directory;
  const json prompt = {5, 6, 7, 8, 9, 10};
  std::ofstream(directory.path() / "ids.json") << prompt;
  const Finished written =
      run(kNoMpirun, {"generate", "--model", model.path(), "--tokens",
                      (directory.path() / "ids.json").string(), "--temperature", "0.8", "--seed", "7",
                      "--max-tokens", "40", "--ignore-eos", "--same-bits", "--json"});
  ASSERT_EQ(written.status, 0) << written.err;
  json text = json_lines(written.out).front();
  text["name"] = "own";
  text["prompt_ids"] = prompt;
  const auto accepted = [&](const json& line) {
    std::ofstream(directory.path() / "texts.jsonl") << line;
    const Finished finished = run(2, {"bench", "--synthetic", tiny_config(), "--same-bits", "--speculate",
                                      "draft:" + model.path() + ":4:always", "--acceptance-trace",
                                      (directory.path() / "texts.jsonl").string(), "--json"});
    EXPECT_EQ(finished.status, 0) << finished.err;
    const json drafted = json_lines(finished.out).at(1);
    EXPECT_EQ(drafted.at("text"), "own");
    return std::pair<int, int>(drafted.at("accepted_tokens"), drafted.at("drafted_tokens"));
  };
  const auto [right, all] = accepted(text);
  EXPECT_EQ(right, all);
  EXPECT_GE(right, 28);
  text["sampling"]["seed"] = 8;
  const auto [by_chance, others] = accepted(text);
  EXPECT_LT(by_chance, others) << "other noise agrees as often";
}

TEST(BenchReplay, TheTextsOfTheRepositoryCanBeRead) {
  const Finished finished =
      run(kNoMpirun, {"bench", "--synthetic", TP_SOURCE_FOLDER "/bench/shapes/llama-tiny.json", "--same-bits",
                      "--acceptance-trace", TP_SOURCE_FOLDER "/bench/texts.jsonl", "--batch", "5", "--json"});
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(json_lines(finished.out).size(), 2U);
}

TEST(BenchReplay, NamesTheInvalidLine) {
  const TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "texts.jsonl";
  std::ofstream(file) << R"({"name": "a", "prompt_ids": [1], "token_ids": [2, 3]})"
                      << "\n"
                      << R"({"name": "b", "prompt_ids": [1]})"
                      << "\n";
  const std::vector<std::string> command = {"bench", "--synthetic", tiny_config(), "--acceptance-trace",
                                            file.string()};
  const Finished finished = run(2, command);
  EXPECT_EQ(finished.status, 1);
  EXPECT_CONTAINS(finished.err, "cannot use line 2 of");
  EXPECT_CONTAINS(finished.err, "token_ids");
  std::vector<std::string> too_much = command;
  too_much.insert(too_much.end(), {"--generate", "5"});
  EXPECT_EQ(run(kNoMpirun, too_much).status, 2);
  EXPECT_CONTAINS(run(kNoMpirun, too_much).err, "leave them out");
  std::ofstream(file) << "\n";
  EXPECT_CONTAINS(run(kNoMpirun, command).err, "no texts in");
}

}  // namespace
}  // namespace tp::test
