// How the program speaks: help, versions, wrong usage, and what needs no ranks.

#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

const std::vector<std::string> kCommands = {"generate",   "logits",  "perplexity", "tokenize",
                                            "detokenize", "inspect", "bench"};

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Usage, EveryCommandExplainsItselfWithExamples) {
  const Finished general = run(kNoMpirun, {"--help"});
  expect_success(general);
  for (const std::string& command : kCommands) {
    EXPECT_CONTAINS(general.out, command);
    const Finished finished = Process({TP_INFER_PROGRAM, command, "--help"}).finish();
    expect_success(finished);
    EXPECT_CONTAINS(finished.out, "Example");
    EXPECT_CONTAINS(finished.out, "--model");
    EXPECT_EQ(finished.out.find("INT in"), std::string::npos) << "a type only a programmer can read";
  }
}

TEST(Usage, DefaultsAreShown) {
  const Finished finished = run(kNoMpirun, {"bench", "--help"});
  EXPECT_CONTAINS(finished.out, "--generate N=64");
  EXPECT_CONTAINS(finished.out, "--prefill-chunk N=512");
}

TEST(Usage, MpirunDoesNotMultiplyWhatIsPrinted) {
  EXPECT_EQ(count_of(run(3, {"--version"}).out, "tp-infer"), 1U);
  EXPECT_EQ(count_of(run(3, {"--help"}).out, "Usage:"), 1U);
}

TEST(Usage, WrongOptionsAreOneLineAndStatusTwo) {
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"frobnicate"}, "tp-infer: The following argument was not expected: frobnicate (see tp-infer --help)"},
      {{"generate", "--bogus"}, "--bogus (see tp-infer generate --help)"},
      {{"generate", "--model", "x"}, "nothing to continue; give --prompt TEXT"},
      {{"generate", "--prompt", "x", "--batch", "y"}, "a --batch has all prompts in its lines"},
      {{"generate", "--prompt-file", "-", "--tokens", "-"}, "cannot both be standard input"},
      {{"generate", "--prompt", "x", "--logprobs", "2"}, "give --json too"},
      {{"generate", "--prompt", "x", "--top-p", "2"}, "top_p is 2, expected a number in (0, 1]"},
      {{"generate", "--prompt", "x", "--n", "0"}, "n is 0, expected 1 to 4096 continuations"},
      {{"generate", "--prompt", "x", "--stop", ""}, "cannot stop at an empty text"},
      {{"generate", "--prompt", "x", "--weights", "f8"}, "--weights: f8 not in {"},
      {{"generate", "--prompt", "x", "--max-length", "0"}, "expected a whole number of at least 1, found 0"},
      {{"logits", "--output", "x"}, "--tokens is required"},
      {{"perplexity", "--file", "x", "--window", "1"}, "expected a whole number of at least 2, found 1"},
      {{"perplexity"}, "Exactly 1 option from [--file,--tokens] is required"},
      {{"inspect", "--ranks", "0"}, "expected a whole number from 1 to 4096, found 0"},
      {{"bench", "--batch", "1,a"}, "expected a whole number from 1 to 4096, found a"},
      {{"bench", "--synthetic", "a", "--model", "b"}, "excludes"},
  };
  for (const auto& [arguments, message] : cases) expect_one_error(run(kNoMpirun, arguments), 2, message);
}

TEST(Usage, WrongOptionsAreOneLineAndStatusTwoUnderMpirun) {
  for (int repeat = 0; repeat < 3; ++repeat) {  // no rank may be quicker than the one that speaks
    expect_one_error(run(4, {"generate", "--bogus"}), 2, "--bogus (see tp-infer generate --help)");
  }
}

TEST(Usage, AnOptionGivenAgainReplacesTheFirst) {
  const TextModel model;
  const Finished finished =
      run(kNoMpirun, {"generate", "--model", model.path(), "--prompt", "x", "--ignore-eos", "--max-tokens",
                      "9", "--json", "--max-tokens", "2"});
  expect_success(finished);
  EXPECT_EQ(json_lines(finished.out).at(0).at("token_ids").size(), 2U);
}

TEST(Usage, WithoutArgumentsTheDemoModelTellsAStory) {
  const std::filesystem::path program = TP_INFER_PROGRAM;
  if (!std::filesystem::exists(program.parent_path().parent_path() / "share/tp-infer/demo/model.safetensors"))
    GTEST_SKIP() << "the demo model is not there";
  const Finished finished = run(2, {});
  EXPECT_EQ(finished.status, 0);
  EXPECT_GT(finished.out.size(), 100U);
  EXPECT_EQ(count_of(finished.err, "What to try next"), 1U) << finished.err;
}

TEST(Usage, WhatNeedsNoRanksIsPrintedOnceUnderMpirun) {
  const TextModel model;
  for (const Arguments& arguments : std::vector<Arguments>{{"inspect", "--model", model.path()},
                                                           {"tokenize", "--model", model.path(), "Hello"}}) {
    const Finished finished = run(3, arguments);
    expect_success(finished);
    EXPECT_EQ(finished.out, run(kNoMpirun, arguments).out);
  }
  expect_one_error(run(3, {"inspect", "--model", "/nonexistent"}), 1,
                   "cannot open /nonexistent: no such file");
}

TEST(Usage, WhatFilesSayCannotSteerTheTerminal) {
  const std::string steering = "\x1b]0;title\x07\u009b2J\n";
  const CheckpointCopies copies;
  const std::filesystem::path model = copies.copy("llama-gqa", "model");
  change_config(model, {{"architectures", {steering}}});
  for (const std::size_t ranks : {kNoMpirun, std::size_t{2}}) {
    for (const Arguments& arguments :
         {Arguments{"inspect", "--model", model},
          Arguments{"logits", "--model", model, "--tokens", "-", "--output", "x.npy"}}) {
      expect_one_error(run(ranks, arguments, {.input = "[1]"}), 1,
                       "models of the family ?]0;title??2J? are not supported");
    }
  }
  const TemporaryDirectory directory;
  const std::string chat_template =
      directory.write("chat.jinja", "{{ raise_exception(" + nlohmann::json(steering).dump() + ") }}");
  const Finished finished = run(kNoMpirun, {"chat", "--template", chat_template}, {.input = "Hello\n"});
  EXPECT_CONTAINS(finished.err, "?]0;title??2J?");
  EXPECT_EQ(finished.err.find('\x1b'), std::string::npos) << finished.err;
}

TEST(Tokenize, IsUndoneByDetokenize) {
  const TextModel model;
  const std::vector<std::string> texts = {"Hello world", "two\nlines \"quoted\"", "",
                                          "caf\u00e9 \u4f60\u597d", "  spaces  "};
  std::string lines;
  for (const std::string& text : texts) lines += nlohmann::json(text).dump() + "\n";
  const Finished ids = run(kNoMpirun, {"tokenize", "--model", model.path(), "--jsonl"}, {.input = lines});
  expect_success(ids);
  EXPECT_EQ(json_lines(ids.out).size(), texts.size());
  const Finished back = run(kNoMpirun, {"detokenize", "--model", model.path(), "--jsonl", "--skip-special"},
                            {.input = ids.out});
  expect_success(back);
  EXPECT_EQ(json_lines(back.out), json_lines(lines));
}

TEST(Tokenize, ABadLineIsNamed) {
  const TextModel model;
  const auto detokenize = [&](const std::string& input) {
    return run(kNoMpirun, {"detokenize", "--model", model.path()}, {.input = input});
  };
  for (const char* bad : {"[1, 99999]", "[1, -1]", "[1.5]", "{\"ids\": 1}", "[1"}) {
    const Finished finished = detokenize("[2, 300]\n" + std::string(bad) + "\n");
    EXPECT_EQ(finished.status, 1) << bad;
    EXPECT_TRUE(finished.err.starts_with("tp-infer: input line 2: ")) << finished.err;
  }
}

}  // namespace
}  // namespace tp::test
