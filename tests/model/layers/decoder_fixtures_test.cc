// Every fixture of every family: logits and tokens that the original modelling code computed.
#include "model/config/config.h"
#include "model/weights/open_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/llama.h"
#include "tests/reference/name_of_fixture.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::ModelUnderTest;

// The float32 noise of most models is 6e-6 according to meta.json (float64 against float32, and two
// implementations against each other). Our model has other orders of summation and its own exp. 1e-4 is a
// tenth of the error that the fixtures' README allows, and far below the effect of one wrong element of a
// weight. A noisier model, such as GPT-Neo with its large scores, gets a multiple of its noise.
double tolerance(const Fixture& fixture) { return std::max(1e-4, 4 * fixture.noise); }

class FamilyFixture : public testing::TestWithParam<Fixture> {
 protected:
  // Whether this many ranks can run the model.
  bool fits() const { return config_.num_attention_heads >= comm_.size(); }

  Communicator& comm_ = test::world();
  CheckpointConfig config_ = load_config(GetParam().folder);
  std::unique_ptr<WeightSource> source_ = open_checkpoint(GetParam().folder);
};

TEST_P(FamilyFixture, GivesTheLogitsOfTheOriginalModellingCode) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  ModelUnderTest decoder(comm_, config_, *source_, {.weights = WeightType::f32});
  std::vector<float> logits = decoder.append(GetParam().prompt);
  EXPECT_LE(decoder.difference(logits, GetParam().rows), tolerance(GetParam()));
  if (decoder.spec().recomputes) return;  // every token changes the logits of earlier tokens
  const std::vector<float> more =
      decoder.append(std::span(GetParam().greedy).first(GetParam().greedy.size() - 1));
  logits.insert(logits.end(), more.begin(), more.end());
  EXPECT_LE(decoder.difference(logits, GetParam().greedy_rows), tolerance(GetParam()));
}

// The prompt takes several chunks, so half-batches also depend on earlier steps. In every family that can be
// divided, both halves have the same number of sums.
TEST_P(FamilyFixture, GivesThemInTwoHalfBatchesInTurns) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  if (!can_divide_steps(make_spec(config_))) GTEST_SKIP() << "computes whole sequences";
  ModelUnderTest decoder(comm_, config_, *source_,
                         {.chunk = 20, .weights = WeightType::f32, .in_halves = true});
  EXPECT_LE(decoder.difference(decoder.append(GetParam().prompt), GetParam().rows), tolerance(GetParam()));
}

TEST_P(FamilyFixture, GivesTheGreedyTokensExactly) {
  if (!fits()) GTEST_SKIP() << comm_.size() << " ranks, " << config_.num_attention_heads << " heads";
  ModelUnderTest decoder(comm_, config_, *source_, {.weights = WeightType::f32});
  EXPECT_EQ(decoder.greedy(GetParam().prompt, GetParam().greedy.size()), GetParam().greedy);
}

class LlamaFixture : public FamilyFixture {};

// Checks the naive decoder that other tests use. One rank is enough.
TEST_P(LlamaFixture, MatchesTheNaiveDecoder) {
  if (comm_.size() != 1) GTEST_SKIP() << "no ranks in it";
  reference::Llama llama(config_, *source_);
  const reference::Matrix logits = llama.logits(GetParam().prompt);
  EXPECT_LE(GetParam().rows.difference(std::vector<float>(logits.values.begin(), logits.values.end())),
            tolerance(GetParam()));  // the fixture's own float32 noise
  EXPECT_EQ(llama.greedy(GetParam().prompt, 3),
            std::vector<TokenId>(GetParam().greedy.begin(), GetParam().greedy.begin() + 3));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, FamilyFixture,
                         testing::ValuesIn(reference::fixtures_of(supported_architectures())),
                         reference::name_of_fixture);
INSTANTIATE_TEST_SUITE_P(QuantizedFixtures, FamilyFixture,
                         testing::ValuesIn(reference::quantized_fixtures_of(supported_architectures())),
                         reference::name_of_fixture);
std::vector<Fixture> fixtures_with_few_heads() {
  std::vector<Fixture> fixtures;
  for (const std::string& name : reference::names_with_few_heads())
    fixtures.push_back(reference::fixture(name));
  return fixtures;
}
INSTANTIATE_TEST_SUITE_P(FixturesWithFewHeads, FamilyFixture, testing::ValuesIn(fixtures_with_few_heads()),
                         reference::name_of_fixture);
INSTANTIATE_TEST_SUITE_P(Fixtures, LlamaFixture,
                         testing::ValuesIn(reference::fixtures_of({"LlamaForCausalLM"})),
                         reference::name_of_fixture);

}  // namespace
}  // namespace tp
