// Perplexity and divergence by llama.cpp's protocol, by hand and from logits.

#include "launch/perplexity/divergence.h"

#include "parallel/machine/file_text.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"
#include "tests/reference/npy_array.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

// Probabilities 1/2, 1/4 and 1/4, and their logarithms.
const std::vector<float> kBase = {std::log(2.0F), 0.0F, 0.0F};

TEST(BaseRow, HasSixteenBitsPerToken) {
  const BaseRow row = base_row(kBase);
  EXPECT_NEAR(row.min, std::log(0.25), 1e-6);
  EXPECT_NEAR(row.step, std::log(2.0) / 65535, 1e-9);
  EXPECT_EQ(row.steps, (std::vector<std::uint16_t>{65535, 0, 0, 0})) << "padded to an even number";
  // Logits more than 16 below the largest are raised to that bound.
  const BaseRow wide = base_row(std::vector<float>{0.0F, -16.0F, -1000.0F, -8.0F});
  EXPECT_EQ(wide.steps[1], 0);
  EXPECT_EQ(wide.steps[2], 0);
  EXPECT_EQ(wide.steps[3], 32768) << "32767.5 is rounded to even";
  const BaseRow flat = base_row(std::vector<float>{3.0F, 3.0F});
  EXPECT_EQ(flat.step, 0.0F);
  EXPECT_NEAR(flat.logprob(1), std::log(0.5), 1e-6);
}

// The expected bytes are llama-perplexity's for the logits 0, ln 2 and 0 at the one scored position of a
// chunk of four tokens: the header, the ids 7, 8, 9 and 10, step and least, and three steps with one more.
TEST(BaseFile, HasTheBytesOfLlamaPerplexity) {
  const std::string header("_logits_\x04\0\0\0\x03\0\0\0\x01\0\0\0\x07\0\0\0\x08\0\0\0\x09\0\0\0\x0a\0\0\0",
                           36);
  const BaseRow row = base_row(std::vector<float>{0.0F, std::log(2.0F), 0.0F});
  std::string bytes = header;
  for (const float number : {row.step, row.min})
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  bytes += std::string("\0\0\xff\xff\0\0\0\0", 8);
  const TemporaryDirectory folder;
  const BaseShape shape{.context = 4, .vocabulary = 3, .chunks = 1};
  EXPECT_EQ(shape.rows(), 1U);
  const std::string path = folder.path() / "base";
  BaseWriter writer(path, shape, std::vector<TokenId>{7, 8, 9, 10});
  writer.write(row);
  writer.finish();
  EXPECT_EQ(file_text(path), bytes);
  BaseReader reader(folder.write("literal", bytes));
  EXPECT_EQ(reader.tokens(), (std::vector<TokenId>{7, 8, 9, 10}));
  const BaseRow& read = reader.next();
  EXPECT_NEAR(read.logprob(1), std::log(0.5), 1e-6);
  EXPECT_NEAR(read.logprob(2), std::log(0.25), 1e-6);
}

TEST(Divergence, MatchesTwoPositionsComputedByHand) {
  Divergence divergence;
  // The model's probabilities are 1/4, 1/2 and 1/4, with a different most likely token. KL = 1/2 ln 2 + 1/4
  // ln 1/2 = 1/4 ln 2.
  divergence.add(base_row(kBase), std::vector<float>{0.0F, std::log(2.0F), 0.0F}, 0);
  divergence.add(base_row(kBase), kBase, 1);
  const double kld = std::log(2.0) / 4;
  EXPECT_NEAR(divergence.divergence().value, kld / 2, 1e-6);
  EXPECT_NEAR(divergence.divergence().error, kld / 2, 1e-6) << "standard deviation kld / 2, over sqrt(2 - 1)";
  EXPECT_NEAR(divergence.divergence_quantile(1), kld, 1e-6);
  EXPECT_NEAR(divergence.divergence_quantile(0.5), kld / 2, 1e-6);
  // -ln p of the model: 2 ln 2 and 2 ln 2; of the base: ln 2 and 2 ln 2.
  EXPECT_NEAR(divergence.perplexity().value, 4.0, 1e-5);
  EXPECT_NEAR(divergence.base_perplexity().value, std::exp(1.5 * std::log(2.0)), 1e-5);
  EXPECT_NEAR(divergence.log_ratio().value, std::log(2.0) / 2, 1e-6);
  EXPECT_NEAR(divergence.log_ratio().error, std::log(2.0) / 2, 1e-5) << "all of it is the base's";
  EXPECT_NEAR(divergence.change().value, std::sqrt(0.25 * 0.25 / 2), 1e-6);
  EXPECT_EQ(divergence.same_top().value, 0.5);
  EXPECT_EQ(divergence.same_top().error, 0.5);
}

class LlamaCppProtocol : public ::testing::Test {
 protected:
  json measure(std::size_t ranks, Arguments arguments) {
    arguments.insert(arguments.begin(),
                     {"perplexity", "--model", model_.path(), "--protocol", "llama.cpp", "--json"});
    const Finished finished = run(ranks, arguments);
    expect_success(finished);
    return json_lines(finished.out).at(0);
  }
  std::string path(const char* name) const { return folder_.path() / name; }

  const TextModel model_;
  const TemporaryDirectory folder_;
  const std::string text_ =
      folder_.write("text", "One day a cat and a dog went to the big red house by the sea, and sat.");
};

TEST_F(LlamaCppProtocol, ScoresTheSecondHalfOfEachChunk) {
  const std::vector<TokenId> tokens =
      json::parse(run(kNoMpirun, {"tokenize", "--model", model_.path(), "--jsonl"},
                      {.input = json(file_text(text_)).dump() + "\n"})
                      .out);
  const std::size_t context = 10;
  const std::size_t chunks = tokens.size() / context;
  ASSERT_GE(chunks, 2U);
  std::vector<double> nll;
  for (std::size_t i = 0; i < chunks; ++i) {
    std::vector<TokenId> chunk(tokens.begin() + static_cast<std::ptrdiff_t>(i * context),
                               tokens.begin() + static_cast<std::ptrdiff_t>((i + 1) * context));
    chunk[0] = tokens[0];  // BOS
    const std::string ids = folder_.write("ids.json", json(chunk).dump());
    expect_success(run(
        kNoMpirun, {"logits", "--model", model_.path(), "--tokens", ids, "--output", path("logits.npy")}));
    const NpyArray logits = read_npy(path("logits.npy"));
    for (std::size_t position = context / 2; position + 1 < context; ++position) {
      const std::span<const float> row(logits.view().row(position), logits.view().columns());
      nll.push_back(log_sum_exp(row) - row[static_cast<std::size_t>(chunk[position + 1])]);
    }
  }
  Mean mean;
  for (const double one : nll) mean.add(one);
  const json found = measure(2, {"--file", text_, "--context", "10"});
  EXPECT_EQ(found.at("tokens"), chunks * 4);
  EXPECT_NEAR(found.at("perplexity"), std::exp(mean.estimate().value),
              1e-4 * std::exp(mean.estimate().value));
  EXPECT_NEAR(found.at("perplexity_error"), exp_of(mean.estimate()).error,
              1e-3 * exp_of(mean.estimate()).error);
}

TEST_F(LlamaCppProtocol, ComparesAModelWithItself) {
  const json written = measure(2, {"--file", text_, "--context", "10", "--kl-base", path("base")});
  const json plain = measure(1, {"--file", text_, "--context", "10"});
  EXPECT_NEAR(written.at("perplexity"), plain.at("perplexity"), 1e-5 * plain.at("perplexity").get<double>());
  const json same = measure(2, {"--kl-base", path("base")}).at("divergence");
  EXPECT_NEAR(same.at("mean_kld").at("value"), 0.0, 1e-5);
  EXPECT_EQ(same.at("same_top").at("value"), 1.0);
  EXPECT_NEAR(same.at("log_ratio").at("value"), 0.0, 1e-4);
  const json rounded = measure(1, {"--kl-base", path("base"), "--weights", "int4"}).at("divergence");
  EXPECT_GT(rounded.at("mean_kld").at("value"), 1e-4);
  EXPECT_GT(rounded.at("kld").at("maximum"), rounded.at("kld").at("median"));
}

TEST_F(LlamaCppProtocol, ExplainsErrorsInABaseFile) {
  measure(1, {"--file", text_, "--context", "10", "--kl-base", path("base")});
  expect_one_error(
      run(1, {"perplexity", "--model", model_.path(), "--file", text_, "--kl-base", path("base")}), 1,
      "exists; leave --file and --tokens out to compare with it, or remove it");
  std::string bytes = file_text(path("base"));
  const auto refuse = [&](const std::string& contents, const char* expected) {
    const std::string file = folder_.write("broken", contents);
    expect_one_error(
        run(2, {"perplexity", "--model", model_.path(), "--protocol", "llama.cpp", "--kl-base", file}), 1,
        expected);
  };
  refuse("text", "which begins with _logits_; write one with --file TEXT");
  refuse(bytes.substr(0, bytes.size() - 1), "the file is cut off or damaged");
  std::string hostile = bytes;
  hostile.replace(8, 12, std::string("\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f", 12));
  refuse(hostile, "for 2147483647 chunks of 2147483647 tokens");
  hostile = bytes;
  const std::size_t context = 10;
  const std::size_t first_row = 20 + 4 * context * static_cast<unsigned char>(bytes[16]);
  hostile.replace(first_row, 4, std::string("\0\0\xc0\x7f", 4));
  refuse(hostile, "expected finite numbers; the file is damaged");
  hostile = bytes;
  hostile.replace(8, 4, std::string("\0\0\0\0", 4));
  refuse(hostile, "expected a context of at least 4 tokens");
}

TEST_F(LlamaCppProtocol, RefusesOptionsOfTheOtherProtocol) {
  const auto refuse = [&](Arguments arguments, const char* expected) {
    arguments.insert(arguments.begin(), {"perplexity", "--model", model_.path()});
    expect_one_error(run(kNoMpirun, arguments), 2, expected);
  };
  refuse({"--file", text_, "--protocol", "windows", "--context", "10"},
         "--context: expected --protocol llama.cpp with it, found windows");
  refuse({"--file", text_, "--protocol", "llama.cpp", "--stride", "4"},
         "--stride: expected --protocol windows");
  refuse({"--kl-base", path("base"), "--context", "8"}, "--context: the file of --kl-base determines it");
  refuse({"--protocol", "llama.cpp"}, "expected either --file FILE or --tokens FILE, found neither");
}

}  // namespace
}  // namespace tp::test
