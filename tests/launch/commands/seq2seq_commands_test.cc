// tp-infer generate, logits, hidden and inspect with encoder-decoders, and beam search.
#include "tests/doc_example.h"
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/run_line.h"
#include "tests/launch/text_seq2seq.h"
#include "tests/reference/npy_array.h"
#include "tests/reference/seq2seq_fixture.h"
#include "tests/temporary_directory.h"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

TEST(Seq2Seq, TheCommandsOfTheGuideRun) {
  const TextSeq2Seq model;
  const TemporaryDirectory folder;
  for (const char* name :
       {"opus-mt-en-fr", "opus-mt-en-ROMANCE", "mbart-large-50", "flan-t5-base", "bart-base"})
    std::filesystem::create_directory_symlink(model.path(), folder.path() / name);
  folder.write("questions.jsonl", "{\"prompt\": \"w5 w6\", \"max_tokens\": 3}\n");
  folder.write("input.json", R"({"ids": [5, 6, 1], "decoder_ids": [0, 7]})");
  std::size_t commands = 0;
  for (std::string line : doc_example_lines("model/README.md", "## Encoder-decoders")) {
    if (const std::size_t at = line.find("fr_XX"); at != line.npos)
      line.replace(at, 5, "5");  // a token of this vocabulary
    SCOPED_TRACE(line);
    const Finished finished = run_line(line, folder.path());
    EXPECT_EQ(finished.status, 0) << finished.err;
    ++commands;
  }
  EXPECT_EQ(commands, 5U);
  for (const char* file : {"answers.jsonl", "logits.npy"})
    EXPECT_GT(std::filesystem::file_size(folder.path() / file), 0U) << file;
}

using nlohmann::json;
using reference::Seq2SeqFixture;

std::string model_folder(const std::string& name) { return reference::seq2seq_fixture(name).folder.string(); }

TEST(Seq2Seq, LogitsAndHiddenStatesMatchTheOriginalCodeOnSeveralRanks) {
  const TemporaryDirectory directory;
  const std::string output = (directory.path() / "x.npy").string();
  for (const Seq2SeqFixture& fixture : reference::seq2seq_fixtures()) {
    const std::string input = (fixture.folder / "input.json").string();
    for (const std::size_t ranks : {0, 3}) {
      expect_success(
          run(ranks, {"logits", "--model", fixture.folder, "--tokens", input, "--output", output}));
      EXPECT_LE(fixture.logits.difference(read_npy(output).values), 1e-4)
          << fixture.name << ", " << ranks << " ranks";
      expect_success(
          run(ranks, {"hidden", "--model", fixture.folder, "--tokens", input, "--output", output}));
      EXPECT_LE(fixture.encoder.difference(read_npy(output).values), 1e-4)
          << fixture.name << ", " << ranks << " ranks";
    }
  }
}

TEST(Seq2Seq, WithSameBitsLogitsHaveTheSameBitsOnSeveralRanks) {
  const TemporaryDirectory directory;
  const std::string output = (directory.path() / "x.npy").string();
  for (const Seq2SeqFixture& fixture : reference::seq2seq_fixtures()) {
    const std::string input = (fixture.folder / "input.json").string();
    std::vector<float> of_one_rank;
    for (const std::size_t ranks : {1, 3}) {
      expect_success(run(ranks, {"logits", "--model", fixture.folder, "--tokens", input, "--output", output,
                                 "--same-bits"}));
      const std::vector<float> logits = read_npy(output).values;
      if (of_one_rank.empty()) of_one_rank = logits;
      EXPECT_EQ(logits, of_one_rank) << fixture.name << ", " << ranks << " ranks";
    }
  }
}

TEST(Seq2Seq, GenerateContinuesAsTheOriginalCode) {
  for (const Seq2SeqFixture& fixture : reference::seq2seq_fixtures()) {
    const Finished finished = run(2,
                                  {"generate", "--model", fixture.folder, "--tokens", "-", "--json",
                                   "--greedy", "--ignore-eos", "--max-tokens", "16"},
                                  {.input = json(fixture.input.ids).dump()});
    expect_success(finished);
    EXPECT_EQ(json_lines(finished.out).front().at("token_ids").get<std::vector<TokenId>>(), fixture.greedy)
        << fixture.name;
  }
}

// The first example in the README's section, with this model.
TEST(Seq2Seq, GeneratePrintsTheDecodersTextWithoutThePrompt) {
  const TextSeq2Seq model;
  const Seq2SeqFixture fixture = reference::seq2seq_fixture("t5-v1_0-relu-tied");
  std::vector<TokenId> ids = fixture.input.ids;
  const Finished by_text = run(2, {"generate", "--model", model.path(), "--prompt", TextSeq2Seq::decoded(ids),
                                   "--beams", "4", "--max-tokens", "8"});
  expect_success(by_text);
  ids.push_back(1);
  const Finished by_ids = run(
      1,
      {"generate", "--model", model.path(), "--tokens", "-", "--beams", "4", "--max-tokens", "8", "--json"},
      {.input = json(ids).dump()});
  expect_success(by_ids);
  EXPECT_EQ(by_text.out, json_lines(by_ids.out).front().at("text").get<std::string>() + "\n");
  EXPECT_TRUE(by_text.out.starts_with("w")) << by_text.out;
}

TEST(Seq2Seq, GenerateContinuesWhatTheDecoderIsGiven) {
  const Seq2SeqFixture fixture = reference::seq2seq_fixture("t5-v1_0-relu-tied");
  std::vector<TokenId> begun = {0};
  begun.insert(begun.end(), fixture.greedy.begin(), fixture.greedy.begin() + 6);
  const json object = {{"ids", fixture.input.ids}, {"decoder_ids", begun}};
  const Finished finished = run(1,
                                {"generate", "--model", fixture.folder, "--tokens", "-", "--json", "--greedy",
                                 "--ignore-eos", "--max-tokens", "10"},
                                {.input = object.dump()});
  expect_success(finished);
  EXPECT_EQ(json_lines(finished.out).front().at("token_ids").get<std::vector<TokenId>>(),
            std::vector<TokenId>(fixture.greedy.begin() + 6, fixture.greedy.end()));
}

TEST(Seq2Seq, LinesOfABatchMaySearchWithBeams) {
  const Seq2SeqFixture fixture = reference::seq2seq_fixture("t5-v1_0-relu-tied");
  const auto line = [&](const json& settings) {
    json object = {{"ids", fixture.input.ids}, {"max_tokens", 8}};
    object.update(settings);
    return object.dump() + "\n";
  };
  const std::string lines = line({{"beams", 3}, {"n", 2}, {"length_penalty", 0.5}}) +
                            line({{"temperature", 0}}) + line({{"beams", 3}, {"temperature", 1.0}}) +
                            line({{"length_penalty", 2}});
  const Finished finished = run(2, {"generate", "--model", fixture.folder, "--batch", "-"}, {.input = lines});
  const std::vector<json> results = json_lines(finished.out);
  ASSERT_EQ(results.size(), 5U);
  std::vector<std::string> errors;
  std::vector<std::vector<TokenId>> searched;
  for (const json& result : results) {
    if (result.contains("error"))
      errors.push_back(result.at("error").get<std::string>());
    else if (result.at("sampling").contains("beams"))
      searched.push_back(result.at("token_ids").get<std::vector<TokenId>>());
  }
  ASSERT_EQ(searched.size(), 2U);
  EXPECT_NE(searched[0], searched[1]);
  ASSERT_EQ(errors.size(), 2U);
  std::ranges::sort(errors);
  EXPECT_CONTAINS(errors[0], "beam search does not go with a `temperature` above 0");
  EXPECT_CONTAINS(errors[1], "`length_penalty`: it is a setting of beam search");
  // Flags have the same effect.
  const Finished flags = run(1,
                             {"generate", "--model", fixture.folder, "--tokens", "-", "--json", "--beams",
                              "3", "--n", "2", "--length-penalty", "0.5", "--max-tokens", "8"},
                             {.input = json(fixture.input.ids).dump()});
  expect_success(flags);
  std::vector<std::vector<TokenId>> by_flags;
  for (const json& result : json_lines(flags.out))
    by_flags.push_back(result.at("token_ids").get<std::vector<TokenId>>());
  std::ranges::sort(by_flags);
  std::ranges::sort(searched);
  EXPECT_EQ(by_flags, searched);
}

TEST(Seq2Seq, BeamsAreCheckedBeforeAModelIsRead) {
  expect_one_error(run(1, {"generate", "--model", "nowhere", "--prompt", "a", "--length-penalty", "2"}), 2,
                   "--length-penalty and --early-stopping are settings of beam search; give --beams too");
  expect_one_error(run(1, {"generate", "--model", "nowhere", "--prompt", "a", "--beams", "2", "--n", "3"}), 2,
                   "cannot search: --n is 3, expected at most the 2 of --beams");
}

TEST(Seq2Seq, ForcedBosIsATokenOrAnId) {
  const Seq2SeqFixture fixture = reference::seq2seq_fixture("marian");
  const std::string ids = json(fixture.input.ids).dump();
  const Finished finished = run(1,
                                {"generate", "--model", fixture.folder, "--tokens", "-", "--json", "--greedy",
                                 "--max-tokens", "4", "--forced-bos", "77"},
                                {.input = ids});
  expect_success(finished);
  EXPECT_EQ(json_lines(finished.out).front().at("token_ids").front(), 77);
  expect_one_line(run(1, {"generate", "--model", fixture.folder, "--tokens", "-", "--forced-bos", "fr_XX"},
                      {.input = ids}),
                  1, "--forced-bos: expected a token of the vocabulary or an id, found \"fr_XX\"");
}

TEST(Seq2Seq, InspectNamesTheKindAndTheEncodersLayers) {
  const Finished finished = run(kNoMpirun, {"inspect", "--model", model_folder("marian"), "--ranks", "2"});
  expect_success(finished);
  EXPECT_CONTAINS(finished.out, "kind                      encoder-decoder\n");
  EXPECT_CONTAINS(finished.out, "encoder_layers            2\n");
  EXPECT_CONTAINS(finished.out, "parameters                107392\n");
}

TEST(Seq2Seq, AnUnsuitableCommandNamesTheSuitableOnes) {
  expect_one_error(run(1, {"perplexity", "--model", model_folder("marian"), "--tokens",
                           model_folder("marian") + "/input.json"}),
                   1,
                   "expected a decoder, found an encoder-decoder (MarianMTModel); use tp-infer generate, "
                   "logits, hidden with it");
}

TEST(Seq2Seq, StagesOfAPipelineAreRefused) {
  expect_one_error(run(2, {"generate", "--model", model_folder("marian"), "--tokens",
                           model_folder("marian") + "/input.json", "--pipeline", "2"}),
                   1, "cannot divide an encoder into 2 pipeline stages");
}

}  // namespace
}  // namespace tp::test
