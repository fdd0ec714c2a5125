// Compares the engine's beam search with a naive one over whole rows of logits.
#include "tests/reference/beam_search.h"

#include "model/config/config.h"
#include "runtime/modes/beam_run.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/reference/log_softmax.h"
#include "tests/runtime/engine/seq2seq_run.h"
#include "tests/runtime/scheduling/leader_run.h"
#include "tp/error.h"

#include <cmath>
#include <map>
#include <memory>
#include <numeric>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::run_engine;

// Returns the last row after a text, computed anew for every text.
reference::RowOf rows_of(Engine& engine, const Request& asked, const std::vector<TokenId>& banned) {
  return [&engine, asked, banned, known = std::map<std::vector<TokenId>, std::vector<double>>()](
             const std::vector<TokenId>& text) mutable {
    std::vector<double>& row = known[text];
    if (!row.empty()) return row;
    Request request;
    request.prompt = asked.prompt;
    request.decoder_prompt = asked.decoder_prompt;
    request.max_tokens = 0;
    request.prompt_logits = true;
    request.cache_prompt = false;
    std::vector<TokenId>& ids = request.decoder_prompt.empty() ? request.prompt : request.decoder_prompt;
    ids.insert(ids.end(), text.begin(), text.end());
    std::vector<float> last;
    engine.run(request, [&](const Event& event) {
      const auto* rows = std::get_if<PromptLogits>(&event);
      if (rows == nullptr) return;
      const std::span<const float> final_row = rows->row(rows->positions() - 1);
      last.assign(final_row.begin(), final_row.end());
    });
    row = reference::log_softmax(last);
    for (const TokenId id : banned) row[static_cast<std::size_t>(id)] = -INFINITY;
    return row;
  };
}

void expect_the_naive_search(Engine& engine, Request request, const std::vector<TokenId>& banned = {}) {
  request.sampling.temperature = 0.0F;
  request.n = request.beam_search->beams;
  const auto expected =
      reference::beam_search(*request.beam_search, request.stop_token_ids,
                             static_cast<std::size_t>(request.max_tokens), rows_of(engine, request, banned));
  const std::uint64_t id = engine.submit(request);
  const test::Continuations found = test::run_all(engine);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(found.at({id, static_cast<int>(i)}).tokens, expected[i].tokens) << "text " << i;
  EXPECT_FALSE(engine.has_work());
}

const std::vector<BeamSearch>& searches() {
  using Stop = BeamSearch::Stop;
  static const std::vector<BeamSearch> all = {{.beams = 2},
                                              {.beams = 4, .length_penalty = 2.0F, .stop = Stop::never},
                                              {.beams = 3, .length_penalty = 0.5F, .stop = Stop::early}};
  return all;
}

TEST(BeamSearch, FindsANaiveSearchsTextsWithAnEncoderDecoder) {
  const reference::Seq2SeqFixture fixture = reference::seq2seq_fixture("marian");
  Communicator& comm = test::world();
  run_engine(comm, {.model = fixture.folder, .block_size = 4}, [&](Engine& engine) {
    for (const BeamSearch& search : searches()) {
      Request request;
      request.prompt = fixture.input.ids;
      request.decoder_prompt = {255};
      request.max_tokens = 10;
      request.ignore_eos = true;
      request.beam_search = search;
      expect_the_naive_search(engine, request, {255});
    }
  });
}

TEST(BeamSearch, EndsTextsWithTheModelsTokensAndTheRequests) {
  const reference::Seq2SeqFixture fixture = reference::seq2seq_fixture("t5-v1_0-relu-tied");
  Communicator& comm = test::world();
  run_engine(comm, {.model = fixture.folder, .block_size = 4}, [&](Engine& engine) {
    for (const BeamSearch& search : searches()) {
      Request request;
      request.prompt = fixture.input.ids;
      request.decoder_prompt = {0};
      request.max_tokens = 12;
      request.sampling.temperature = 0.0F;
      request.stop_token_ids = {38, 153};  // the model's most likely tokens
      request.n = search.beams;
      request.beam_search = search;
      const auto expected = reference::beam_search(search, {1, 38, 153}, 12, rows_of(engine, request, {}));
      const std::uint64_t id = engine.submit(request);
      const test::Continuations found = test::run_all(engine);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const test::Continuation& text = found.at({id, static_cast<int>(i)});
        EXPECT_EQ(text.tokens, expected[i].tokens) << "text " << i;
        const bool ended = expected[i].tokens.back() == 38 || expected[i].tokens.back() == 153 ||
                           expected[i].tokens.back() == 1;
        EXPECT_EQ(text.reason, ended ? FinishReason::stop : FinishReason::length);
      }
    }
  });
}

TEST(BeamSearch, FindsANaiveSearchsTextsWithADecoder) {
  const reference::Fixture fixture = reference::fixture("llama-headdim-bias");
  Communicator& comm = test::world();
  if (load_config(fixture.folder).num_attention_heads < comm.size()) GTEST_SKIP() << "more ranks than heads";
  run_engine(comm, {.model = fixture.folder, .block_size = 4}, [&](Engine& engine) {
    for (const BeamSearch& search : searches()) {
      Request request;
      request.prompt = {5, 9, 2, 11, 7};
      request.max_tokens = 9;
      request.ignore_eos = true;
      request.beam_search = search;
      expect_the_naive_search(engine, request);
    }
  });
}

TEST(BeamSearch, RunsManySearchesAndOtherRequestsInASmallCache) {
  const reference::Seq2SeqFixture fixture = reference::seq2seq_fixture("marian");
  Communicator& comm = test::world();
  const EngineOptions options{
      .model = fixture.folder, .max_sequences = 5, .block_size = 4, .cache_tokens = 160};
  run_engine(comm, options, [&](Engine& engine) {
    const auto request_for = [&](std::size_t row, bool search) {
      Request request = test::greedy_seq2seq(fixture.batch[row % fixture.batch.size()].ids, 8);
      if (search) request.beam_search = BeamSearch{.beams = 4};
      return request;
    };
    std::vector<std::vector<TokenId>> alone;
    for (std::size_t i = 0; i < 6; ++i)
      alone.push_back(test::run_alone(engine, request_for(i, i % 2 == 0)).tokens);
    std::vector<std::uint64_t> ids;
    for (std::size_t i = 0; i < 6; ++i) ids.push_back(engine.submit(request_for(i, i % 2 == 0)));
    const test::Continuations together = test::run_all(engine);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(together.at({ids[i], 0}).tokens, alone[i]) << i;
    EXPECT_EQ(engine.status().used_blocks, 0U);
  });
}

TEST(BeamSearch, WaitsInTheQueueOnceAndCountsAsOneRequest) {
  const reference::Seq2SeqFixture fixture = reference::seq2seq_fixture("marian");
  Communicator& comm = test::world();
  run_engine(comm, {.model = fixture.folder, .max_sequences = 4, .block_size = 4, .max_queue = 1},
             [&](Engine& engine) {
               Request request = test::greedy_seq2seq(fixture.input.ids, 6);
               request.beam_search = BeamSearch{.beams = 4};
               request.n = 2;
               const RequestId id = engine.submit(request);
               for (int others = 0; others < 4; ++others) engine.cancel(engine.submit(request));
               EXPECT_THROW(engine.submit(request), OverloadedError) << "four can begin, and one may wait";
               const test::Continuations found = test::run_all(engine);
               std::size_t tokens = 0;
               for (int sample = 0; sample < 2; ++sample) {
                 EXPECT_EQ(found.at({id, sample}).error, "");
                 tokens += found.at({id, sample}).tokens.size();
               }
               const LeaderStatus status = engine.status();
               EXPECT_EQ(status.finished.total() - status.finished.cancelled, 2U);
               EXPECT_EQ(status.finished.error, 0U);
               EXPECT_EQ(status.generated_tokens, tokens);
             });
}

TEST(BeamSearch, CanBeCancelled) {
  const reference::Seq2SeqFixture fixture = reference::seq2seq_fixture("marian");
  Communicator& comm = test::world();
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    Request request = test::greedy_seq2seq(fixture.input.ids, 30);
    request.beam_search = BeamSearch{.beams = 4};
    bool cancelled = false;
    std::size_t events = 0;
    const RequestId id = engine.submit(request, [&](const Event& event) {
      ++events;
      cancelled = std::holds_alternative<RequestCancelled>(event);
    });
    for (int i = 0; i < 5; ++i) engine.step();
    EXPECT_EQ(events, 0U);
    engine.cancel(id);
    while (engine.has_work()) engine.step();
    EXPECT_TRUE(cancelled);
    EXPECT_EQ(events, 1U);
    engine.cancel(id);  // without effect now
    EXPECT_EQ(engine.status().used_blocks, 0U);
  });
}

TEST(BeamSearch, RejectsModelsThatRuleOutTooManyTokens) {
  test::LeaderRun run(64, 4, test::limits_of(16, 4));
  BeamRun::Setup setup{.request = {.beam_search = BeamSearch{.beams = 2}},
                       .max_tokens = 3,
                       .bans = {.no_repeat_ngram = 1},
                       .vocab_size = 2 * kMaxBeamCandidates,
                       .sink = {}};
  setup.request.prompt.resize(kMaxBeamCandidates);
  std::iota(setup.request.prompt.begin(), setup.request.prompt.end(), 0);
  const auto search = std::make_shared<BeamRun>(run.leader, nullptr, std::move(setup));
  EXPECT_CONTAINS(test::error_of<RequestError>([&] { search->begin(); }),
                  "need 1048580 candidates in a step, expected at most 1048576");
  EXPECT_FALSE(run.leader.has_work());
}

TEST(BeamSearch, RejectsConflictingSettings) {
  const auto error_of = [](const std::function<void(Request&)>& change) {
    Request request;
    request.prompt = {1};
    request.sampling.temperature = 0.0F;
    request.beam_search = BeamSearch{.beams = 4};
    change(request);
    return test::error_or_none<RequestError>([&] { request.validate(); });
  };
  EXPECT_EQ(error_of([](Request&) {}), "no error");
  EXPECT_EQ(error_of([](Request& request) { request.beam_search->beams = 0; }),
            "cannot search: `beams` is 0, expected 1 to 256; choose another number");
  EXPECT_EQ(error_of([](Request& request) { request.n = 5; }),
            "cannot search: `n` is 5, expected at most the 4 of `beams`; raise `beams`");
  EXPECT_EQ(
      error_of([](Request& request) { request.sampling.temperature = 1.0F; }),
      "cannot search: beam search does not go with a `temperature` above 0, because it draws nothing; set it "
      "to 0");
  EXPECT_EQ(error_of([](Request& request) { request.stop = {"."}; }),
            "cannot search: beam search does not go with stop texts; leave `stop` out, or use "
            "`stop_token_ids`");
}

}  // namespace
}  // namespace tp
