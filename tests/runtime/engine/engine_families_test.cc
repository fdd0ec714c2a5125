// Every fixture with a token cache: the engine gives each request the same tokens as a run by itself, also
// from cached prefixes, after preemptions, and with draft tokens.
#include "model/config/architectures.h"
#include "tests/mpi_test.h"
#include "tests/reference/name_of_fixture.h"
#include "tests/runtime/engine/cached_fixtures.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/speculation/speculated_requests.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::run_engine;
using test::Texts;
using test::texts_of;

constexpr unsigned kPrompt = 26;  // tokens of the longest prompt
constexpr unsigned kAnswer = 16;  // tokens

// Each prompt repeats the same five tokens, so all prompts begin alike, and drafts find something. Answers
// are longer than most prompts, so sequences outgrow the cache.
std::vector<Request> similar_requests(const Fixture& fixture) {
  std::vector<Request> requests;
  for (const std::size_t size : {5U, 6U, 8U, 9U, 13U, kPrompt})
    requests.push_back(test::greedy_request(test::repetitive_prompt(fixture, size, 5), kAnswer));
  requests.back().sampling.temperature = 0.9F;
  requests.back().sampling.seed = 7;
  requests.back().n = 2;
  return requests;
}

class EngineFamily : public testing::TestWithParam<Fixture> {
 protected:
  EngineOptions options_{.model = GetParam().folder,
                         .weights = WeightType::f32,
                         .kv_type = KvType::f32,
                         .same_bits = true,
                         .prefill_chunk = 8,
                         .max_length = kPrompt + kAnswer,
                         .block_size = 4};
};

TEST_P(EngineFamily, GivesTheSameTokensFromPrefixesAfterPreemptionsAndWithDrafts) {
  const std::vector<Request> requests = similar_requests(GetParam());
  std::vector<Request> apart = requests;
  for (Request& request : apart) request.cache_prompt = false;
  Texts expected;
  run_engine(test::world(), options_, [&](Engine& engine) { expected = texts_of(engine, apart, true); });
  options_.cache_tokens = options_.max_length;
  for (const DraftKind drafts : {DraftKind::none, DraftKind::ngram}) {
    SCOPED_TRACE(drafts == DraftKind::none ? "without drafts" : "with drafts");
    options_.speculation = {.drafts = drafts, .tokens = 4, .always = true};
    run_engine(test::world(), options_, [&](Engine& engine) {
      EXPECT_EQ(texts_of(engine, requests, true), expected) << "one by one";
      EXPECT_EQ(texts_of(engine, requests, false), expected) << "together";
      const LeaderStatus status = engine.status();
      EXPECT_GT(status.prefix_hits, 0U);
      EXPECT_GT(status.preemptions, 0U);
      EXPECT_EQ(status.used_blocks, 0U);
      EXPECT_EQ(status.speculation.drafted_tokens() != 0, drafts != DraftKind::none);
    });
  }
}

std::vector<Fixture> all_fixtures_with_cache() {
  std::vector<Fixture> fixtures =
      test::fixtures_with_cache(reference::fixtures_of(supported_architectures()));
  std::ranges::copy(test::fixtures_with_cache(reference::quantized_fixtures_of(supported_architectures())),
                    std::back_inserter(fixtures));
  return fixtures;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, EngineFamily, testing::ValuesIn(all_fixtures_with_cache()),
                         reference::name_of_fixture);

}  // namespace
}  // namespace tp
