// tp-infer perplexity.

#include "tests/launch/program.h"
#include "tests/launch/text_model.h"
#include "tests/reference/fixture.h"
#include "tests/reference/npy_array.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

double negative_log_probability(std::span<const float> logits, TokenId token) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  return highest + std::log(sum) - logits[static_cast<std::size_t>(token)];
}

// Returns the logits of `tp-infer logits` for the tokens, [tokens.size(), vocab_size].
NpyArray logits_of(const std::filesystem::path& model, const std::vector<TokenId>& tokens) {
  const TemporaryDirectory directory;
  const std::string ids = directory.write("ids.json", json(tokens).dump());
  const std::string output = directory.path() / "logits.npy";
  expect_success(run(kNoMpirun, {"logits", "--model", model, "--tokens", ids, "--output", output}));
  return read_npy(output);
}

// Returns the sum over all tokens except the first. Each token is predicted in the first window that reaches
// it.
double expected_nll(const std::filesystem::path& model, const std::vector<TokenId>& tokens,
                    std::size_t window, std::size_t stride) {
  double sum = 0.0;
  std::size_t scored = 1;
  for (std::size_t begin = 0; scored < tokens.size(); begin += stride) {
    const std::size_t size = std::min(window, tokens.size() - begin);
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
    const NpyArray logits = logits_of(model, {first, first + static_cast<std::ptrdiff_t>(size)});
    for (; scored < begin + size; ++scored) {
      const float* const row = logits.view().row(scored - 1 - begin);
      sum += negative_log_probability({row, logits.view().columns()}, tokens[scored]);
    }
  }
  return sum;
}

json perplexity(std::size_t ranks, Arguments arguments, const StartOptions& options = {}) {
  arguments.insert(arguments.begin(), "perplexity");
  arguments.push_back("--json");
  const Finished finished = run(ranks, arguments, options);
  expect_success(finished);
  const std::vector<json> lines = json_lines(finished.out);
  return lines.size() == 1 ? lines[0] : json();
}

TEST(Perplexity, MatchesTheLogitsForSeveralRanksAndChunks) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  ASSERT_EQ(fixture.prompt.size(), 36U);
  const double nll = expected_nll(fixture.folder, fixture.prompt, 16, 6) / 35;
  for (const std::size_t ranks : {0, 3}) {
    for (const char* chunk : {"512", "5"}) {
      const json found =
          perplexity(ranks, {"--model", fixture.folder, "--tokens", (fixture.folder / "prompt.json").string(),
                             "--window", "16", "--stride", "6", "--prefill-chunk", chunk});
      // Logits of different rank counts and chunks differ by 1e-5, and 35 of them are averaged.
      EXPECT_NEAR(found.at("nll_per_token"), nll, 1e-5) << ranks << " ranks";
      EXPECT_NEAR(found.at("perplexity"), std::exp(nll), 1e-5 * std::exp(nll));
      EXPECT_EQ(found.at("tokens"), 35);
      EXPECT_EQ(found.at("windows"), 5);
      EXPECT_EQ(found.at("weights"), "f32");
      EXPECT_EQ(found.at("kv_type"), "f32");
      EXPECT_TRUE(found.at("bits_per_byte").is_null()) << "there is no tokenizer";
      EXPECT_GT(found.at("tokens_per_s"), 0.0);
    }
  }
}

TEST(Perplexity, OneWindowMayReachTheModelsLastPosition) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const std::string ids = (fixture.folder / "prompt.json").string();
  const json found =
      perplexity(2, {"--model", fixture.folder, "--tokens", ids, "--max-length", "36", "--stride", "35"});
  EXPECT_EQ(found.at("window"), 36);
  EXPECT_EQ(found.at("windows"), 1);
  EXPECT_NEAR(found.at("nll_per_token"), expected_nll(fixture.folder, fixture.prompt, 36, 35) / 35, 1e-5);
}

TEST(Perplexity, ScoresAllTokensExceptBos) {
  const TextModel model;
  const std::string text = "Hello world, caf\u00e9\n\n  and more";
  const TemporaryDirectory directory;
  const std::string file = directory.write("text.txt", text);
  const Finished tokenized =
      run(kNoMpirun, {"tokenize", "--model", model.path(), "--jsonl"}, {.input = json(text).dump()});
  const std::vector<TokenId> ids = json::parse(tokenized.out).get<std::vector<TokenId>>();
  ASSERT_EQ(ids.front(), 2) << "BOS";
  const json found = perplexity(3, {"--model", model.path(), "--file", file});
  EXPECT_EQ(found.at("tokens"), ids.size() - 1);
  EXPECT_EQ(found.at("bytes"), text.size());
  const double nll = expected_nll(model.path(), ids, 2048, 1024);
  const auto count = static_cast<double>(ids.size() - 1);
  EXPECT_NEAR(found.at("nll_per_token"), nll / count, 1e-5);
  EXPECT_NEAR(found.at("bits_per_byte"), nll / std::log(2.0) / static_cast<double>(text.size()), 1e-5);
  const json piped = perplexity(kNoMpirun, {"--model", model.path(), "--file", "-"}, {.input = text});
  EXPECT_NEAR(piped.at("nll_per_token"), nll / count, 1e-5);
}

// Without BOS, no token precedes the first one, so neither its probability nor its text counts.
TEST(Perplexity, CountsTheBytesOfTheScoredTokens) {
  const TextModel model;
  const Finished tokenized =
      run(kNoMpirun, {"tokenize", "--model", model.path(), "--no-special", "Hello world"});
  const Finished first = run(kNoMpirun, {"detokenize", "--model", model.path(), "--jsonl"},
                             {.input = json::array({json::parse(tokenized.out).at(0)}).dump()});
  const TemporaryDirectory directory;
  const json found =
      perplexity(kNoMpirun, {"--model", model.path(), "--tokens", directory.write("ids", tokenized.out)});
  EXPECT_EQ(found.at("bytes"), 11 - json::parse(first.out).get<std::string>().size());
}

TEST(Perplexity, PrintsAShortTable) {
  const reference::Fixture fixture = reference::fixture("llama-gqa");
  const Finished finished = run(2, {"perplexity", "--model", fixture.folder, "--tokens",
                                    (fixture.folder / "prompt.json").string(), "--window", "20"});
  expect_success(finished);
  EXPECT_CONTAINS(finished.out, "perplexity     ");
  EXPECT_CONTAINS(finished.out, "tokens         35, in 3 windows of 20 with stride 10\n");
}

TEST(Perplexity, ReportsUnmeasurableInput) {
  const TextModel model;
  const TemporaryDirectory directory;
  const auto measure = [&](const std::string& text, const Arguments& more = {},
                           std::size_t ranks = kNoMpirun) {
    Arguments arguments = {"perplexity", "--model", model.path(), "--file", directory.write("text", text)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(ranks, arguments);
  };
  expect_one_error(measure("", {}, 2), 1, "the file is empty; expected a text to measure");
  expect_one_error(measure("ab\xC3"), 1, "byte 2 is not UTF-8; expected a text in UTF-8; convert the file");
  expect_one_error(measure("a b", {"--window", "4097"}), 1,
                   "a window of 4097 tokens is longer than the 4096");
  expect_one_error(measure("a b", {"--window", "8", "--stride", "8"}, 2), 1,
                   "give a --stride that is smaller than the --window");
  expect_one_error(
      run(kNoMpirun, {"perplexity", "--model", model.path(), "--tokens", directory.write("ids", "[7]")}), 1,
      "1 token; expected at least 2, because each token is predicted from earlier ones");
  expect_one_error(run(kNoMpirun, {"perplexity", "--model", model.path(), "--tokens",
                                   directory.write("ids", "[7, 9, 2600]")}),
                   1, "token id 2600, but the vocabulary has the ids 0 to 2599");
  expect_one_error(run(kNoMpirun, {"perplexity", "--model", fixture_folder("llama-gqa"), "--file",
                                   directory.write("text", "a")}),
                   1, "the model has no tokenizer; give token ids");
}

}  // namespace
}  // namespace tp::test
