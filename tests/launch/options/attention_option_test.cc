// --attention favor: on decoders, next to exact attention, and on unsuitable models.
#include "tests/doc_example.h"
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/run_line.h"
#include "tests/launch/text_encoder.h"
#include "tests/launch/text_model.h"
#include "tests/reference/npy_array.h"

#include <cmath>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

const char* const kLabel = "results differ from the model's";

class AttentionOption : public testing::Test {
 protected:
  std::vector<float> logits(std::size_t ranks, const std::string& attention, const Arguments& more = {}) {
    const std::string output = (directory_.path() / "x.npy").string();
    Arguments arguments = {"logits",   "--model", model_,      "--tokens", model_ + "/prompt.json",
                           "--output", output,    "--weights", "f32",      "--attention",
                           attention};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished finished = run(ranks, arguments);
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(finished.err.find(kLabel) != std::string::npos, attention != "exact") << finished.err;
    return read_npy(output).values;
  }

  static double apart(const std::vector<float>& a, const std::vector<float>& b) {
    double squares = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(static_cast<double>(a[i]) - b[i], 2);
    return std::sqrt(squares / static_cast<double>(a.size()));
  }

  TemporaryDirectory directory_;
  std::string model_ = fixture_folder("llama-gqa");
};

TEST_F(AttentionOption, ComesCloserToTheModelWithMoreFeatures) {
  const std::vector<float> exact = logits(1, "exact");
  const double few = apart(logits(1, "favor:16"), exact);
  const double many = apart(logits(1, "favor:4096"), exact);
  EXPECT_GT(few, 0.0);
  EXPECT_LT(many, 0.9 * few);
}

TEST_F(AttentionOption, GivesTheSameOnAnyRanksAndInAnyChunks) {
  const std::vector<float> one = logits(1, "favor", {"--same-bits"});
  EXPECT_EQ(logits(2, "favor", {"--same-bits", "--prefill-chunk", "5"}), one);
  EXPECT_EQ(logits(3, "favor:256", {"--same-bits", "--threads", "2"}), one);
}

TEST_F(AttentionOption, GeneratesFromSumsInPlaceOfACache) {
  const auto generated = [&](std::size_t ranks, const Arguments& more) {
    Arguments arguments = {"generate",     "--model", model_,     "--tokens", model_ + "/prompt.json",
                           "--max-tokens", "12",      "--greedy", "--json",   "--same-bits",
                           "--attention",  "favor:64"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished finished = run(ranks, arguments);
    EXPECT_EQ(finished.status, 0) << finished.err;
    return json_lines(finished.out).back().at("token_ids");
  };
  const json one = generated(1, {});
  EXPECT_EQ(one.size(), 12U);
  EXPECT_EQ(generated(2, {"--prefill-chunk", "3"}), one);
}

TEST_F(AttentionOption, WorksLikeTheExampleOfTheGuide) {
  const TextModel model;
  std::filesystem::create_directory_symlink(model.path(), directory_.path() / "DIR");
  const std::vector<std::string> lines =
      doc_example_lines("model/README.md", "## Approximate and sparse attention");
  ASSERT_EQ(lines.size(), 1U);
  const Finished finished = run_line(lines.front(), directory_.path());
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_FALSE(finished.out.empty());
  EXPECT_CONTAINS(finished.err, "approximated by 512 random features per head");
}

TEST_F(AttentionOption, IsRejectedForOtherModels) {
  const std::string ids = model_ + "/prompt.json";
  expect_one_line(run(0, {"generate", "--model", model_, "--tokens", ids, "--attention", "favor:0"}), 2,
                  "--attention: expected exact, favor, or favor:N with 1 to 65536 features, found favor:0");
  expect_one_line(run(0, {"generate", "--model", model_, "--tokens", ids, "--attention", "linear"}), 2,
                  "expected exact, favor, or favor:N with 1 to 65536 features, found linear");
  const TextEncoder encoder("bert-embed-mean");
  expect_one_error(run(2, {"embed", "--model", encoder.path(), "--prompt", "red", "--attention", "favor"}), 1,
                   "cannot approximate attention by random features: expected a decoder whose scores are "
                   "products of queries and keys, found a model that computes whole sequences; use exact "
                   "attention (--attention exact)");
}

}  // namespace
}  // namespace tp::test
