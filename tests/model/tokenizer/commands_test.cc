#include "launch/commands/detokenize_command.h"
#include "launch/commands/subcommands.h"
#include "launch/commands/tokenize_command.h"
#include "tests/error_of.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <sstream>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

namespace tp {
namespace {

// Bytes are their own ids, 256 is <|end|>.
Tokenizer byte_tokenizer() { return testing::load_tokenizer(testing::byte_level_json()); }

std::string tokenized(const std::string& input, const TokenizeOptions& options = {}) {
  std::istringstream in(input);
  std::string out;
  tokenize_lines(byte_tokenizer(), options, in, [&](std::string_view text) { out += text; });
  return out;
}

std::string detokenized(const std::string& input, const DetokenizeOptions& options = {}) {
  std::istringstream in(input);
  std::string out;
  detokenize_lines(byte_tokenizer(), options, in, [&](std::string_view text) { out += text; });
  return out;
}

TEST(TokenizeCommand, WritesAListForEveryLine) {
  EXPECT_EQ(tokenized("ab\n\nc\r\n"), "[97, 98]\n[]\n[99, 13]\n");
  EXPECT_EQ(tokenized("ab"), "[97, 98]\n");
  EXPECT_EQ(tokenized(""), "");
  EXPECT_EQ(tokenized("a<|end|>\n"), "[97, 256]\n");
}

TEST(TokenizeCommand, ReadsJsonStrings) {
  TokenizeOptions options;
  options.jsonl = true;
  EXPECT_EQ(tokenized("\"a\\nb\"\n\"\"\n", options), "[97, 10, 98]\n[]\n");
}

TEST(TokenizeCommand, NamesTheLineWithoutAJsonString) {
  TokenizeOptions options;
  options.jsonl = true;
  for (const char* line : {"a", "3", "", "\"a", "[\"a\"]", "\"\xFF\""}) {
    const std::string error =
        test::error_of<RequestError>([&] { tokenized(std::string("\"ok\"\n") + line + "\n", options); });
    EXPECT_TRUE(error.starts_with("input line 2: cannot tokenize it: expected a JSON string")) << error;
  }
}

TEST(TokenizeCommand, AddsControlTokensByDefault) {
  const Tokenizer tokenizer = testing::load_tokenizer(
      testing::byte_fallback_json({"▁", "a"}, {}),
      {{"tokenizer_class", "LlamaTokenizer"}, {"bos_token", "<s>"}, {"add_bos_token", true}});
  TokenizeOptions options;
  for (const auto& [add_special, expected] :
       {std::pair{AddSpecial::yes, "[257, 259, 260]\n"}, std::pair{AddSpecial::no, "[259, 260]\n"}}) {
    std::istringstream in("a\n");
    std::string out;
    options.add_special = add_special;
    tokenize_lines(tokenizer, options, in, [&](std::string_view text) { out += text; });
    EXPECT_EQ(out, expected);
  }
}

TEST(DetokenizeCommand, WritesATextForEveryLine) {
  EXPECT_EQ(detokenized("[97, 98]\n[]\n{\"ids\": [99, 256]}\n"), "ab\n\nc<|end|>\n");
  EXPECT_EQ(detokenized(""), "");
}

TEST(DetokenizeCommand, WritesJsonStringsAndLeavesOutSpecialTokens) {
  DetokenizeOptions options;
  options.jsonl = true;
  options.skip_special = SkipSpecial::yes;
  EXPECT_EQ(detokenized("[97, 10, 256, 98]\n[255]\n", options), "\"a\\nb\"\n\"�\"\n");
}

TEST(DetokenizeCommand, NamesTheLineWithoutAListOfIds) {
  for (const char* line :
       {"", "3", "[97", "[1.5]", "[\"a\"]", "[null]", "{\"id\": [1]}", "{\"ids\": 3}", "[99999999999]",
        "[18446744073709551615]", "[-99999999999]", "[[1]]", "{\"ids\": [1], \"ids\": [2]}"}) {
    const std::string error =
        test::error_of<RequestError>([&] { detokenized(std::string("[97]\n") + line + "\n"); });
    EXPECT_TRUE(error.starts_with("input line 2: cannot decode it: expected a JSON list of ids")) << error;
  }
  EXPECT_TRUE(test::error_of<RequestError>([&] {
                detokenized("[257]\n");
              }).starts_with("input line 1: cannot decode token id 257"));
}

TEST(Commands, WriteTheResultsBeforeAWrongLine) {
  std::istringstream in("[97]\n[98]\n[x]\n[99]\n");
  std::string out;
  const auto write = [&](std::string_view text) { out += text; };
  EXPECT_THROW(detokenize_lines(byte_tokenizer(), {}, in, write), RequestError);
  EXPECT_EQ(out, "a\nb\n");
}

TEST(Commands, UndoEachOther) {
  TokenizeOptions tokenize;
  DetokenizeOptions detokenize;
  tokenize.jsonl = detokenize.jsonl = true;
  const std::string texts = "\"a\\nb\"\n\"é中 🦙\"\n\"\"\n";
  EXPECT_EQ(detokenized(tokenized(texts, tokenize), detokenize), texts);
}

// Parses a command line like the program and returns the command's standard output.
std::string run(const std::vector<std::string>& arguments) {
  CLI::App app;
  int status = 0;
  add_tokenize_command(app, status);
  add_detokenize_command(app, status);
  ::testing::internal::CaptureStdout();
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    throw;
  }
  return ::testing::internal::GetCapturedStdout();
}

TEST(TokenizeCommand, AcceptsATextOnTheCommandLine) {
  const test::TemporaryDirectory folder;
  folder.write("tokenizer.json", testing::byte_level_json().dump());
  const std::string model = folder.path().string();
  EXPECT_EQ(run({"tokenize", "--model", model, "a b"}), "[97, 32, 98]\n");
  EXPECT_EQ(run({"tokenize", "--model", model, ""}), "[]\n");
  EXPECT_EQ(run({"tokenize", "--model", model, "--", "--a"}), "[45, 45, 97]\n");
  EXPECT_EQ(run({"tokenize", "--model", model + "/tokenizer.json", "--no-special", "a"}), "[97]\n");
}

TEST(Commands, RefuseWrongArguments) {
  EXPECT_THROW(run({"tokenize", "a"}), CLI::ParseError);
  EXPECT_THROW(run({"tokenize", "--model", "x", "--jsonl", "a"}), CLI::ParseError);
  EXPECT_THROW(run({"detokenize", "--model", "x", "a"}), CLI::ParseError);
  EXPECT_THROW(run({"tokenize", "--model", "/nowhere", "a"}), CheckpointError);
}

}  // namespace
}  // namespace tp
