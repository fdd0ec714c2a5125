// Ends of continuations: length, end-of-sequence tokens, stop texts, cancellation, the engine's own end.
#include "tests/mpi_test.h"
#include "tests/runtime/engine/engine_run.h"

#include <algorithm>
#include <stdexcept>

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::Continuation;
using test::Continuations;
using test::greedy_request;
using test::ModelFolder;
using test::run_alone;
using test::run_engine;

std::vector<TokenId> first(const std::vector<TokenId>& tokens, std::size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
}

// Returns how many tokens the text has if any of `ends` ends it.
std::size_t tokens_until(const std::vector<TokenId>& tokens, std::vector<TokenId> ends) {
  const auto found = std::find_first_of(tokens.begin(), tokens.end(), ends.begin(), ends.end());
  return static_cast<std::size_t>(found - tokens.begin()) + 1;
}

TEST(Engine, EndsAtMaxTokens) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    for (const int count : {1, 2, 16}) {
      const Continuation found = run_alone(engine, greedy_request(fixture.prompt, count));
      EXPECT_EQ(found.tokens, first(fixture.greedy, static_cast<std::size_t>(count)));
      EXPECT_EQ(found.reason, FinishReason::length);
    }
  });
}

TEST(Engine, EndsAtTheLongestSequence) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder, .max_length = 40}, [&](Engine& engine) {
    EXPECT_EQ(engine.info().options.max_length, 40U);
    const Continuation found = run_alone(engine, greedy_request(fixture.prompt, 1000));
    EXPECT_EQ(found.tokens, first(fixture.greedy, 4));
    EXPECT_EQ(found.reason, FinishReason::length);
  });
}

TEST(Engine, EndsAtTheRequestsOwnTokens) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    Request request = greedy_request(fixture.prompt, 16);
    request.stop_token_ids = {fixture.greedy[9], fixture.greedy[5]};
    EXPECT_EQ(run_alone(engine, request).tokens, fixture.greedy) << "with ignore_eos nothing ends it";
    request.ignore_eos = false;
    const Continuation found = run_alone(engine, request);
    EXPECT_EQ(found.tokens, first(fixture.greedy, tokens_until(fixture.greedy, request.stop_token_ids)));
    EXPECT_EQ(found.reason, FinishReason::stop);
  });
}

TEST(Engine, EndsAtTheConfigsEndOfSequenceTokenByDefault) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  const ModelFolder folder(fixture);
  const TokenId eos = fixture.greedy[6];
  nlohmann::json config = nlohmann::json::parse(std::ifstream(fixture.folder / "config.json"));
  config["eos_token_id"] = eos;
  folder.write("config.json", config.dump());
  run_engine(comm, {.model = folder.path()}, [&](Engine& engine) {
    EXPECT_EQ(engine.info().eos_token_ids, std::vector<TokenId>{eos});
    Request request = greedy_request(fixture.prompt, 16);
    EXPECT_EQ(run_alone(engine, request).tokens, fixture.greedy);
    request.ignore_eos = false;
    const Continuation found = run_alone(engine, request);
    EXPECT_EQ(found.tokens, first(fixture.greedy, tokens_until(fixture.greedy, {eos})));
    EXPECT_EQ(found.reason, FinishReason::stop);
  });
}

TEST(Engine, EndsAtAnyOfTheGenerationConfigsEndOfSequenceTokens) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  for (const std::vector<TokenId>& ends : {std::vector<TokenId>{fixture.greedy[9], fixture.greedy[4]},
                                           std::vector<TokenId>{fixture.greedy[3], fixture.greedy[12]}}) {
    const ModelFolder folder(fixture);
    folder.write("generation_config.json", nlohmann::json{{"eos_token_id", ends}}.dump());
    run_engine(comm, {.model = folder.path()}, [&](Engine& engine) {
      EXPECT_EQ(engine.info().eos_token_ids, ends);  // replaces the config's tokens
      Request request = greedy_request(fixture.prompt, 16);
      request.ignore_eos = false;
      const Continuation found = run_alone(engine, request);
      EXPECT_EQ(found.tokens, first(fixture.greedy, tokens_until(fixture.greedy, ends)));
      EXPECT_EQ(found.reason, FinishReason::stop);
    });
  }
}

TEST(Engine, GivesTheTextOfItsTokens) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  const ModelFolder folder(fixture);
  run_engine(comm, {.model = folder.path()}, [&](Engine& engine) {
    EXPECT_TRUE(engine.has_tokenizer());
    EXPECT_EQ(run_alone(engine, greedy_request(fixture.prompt, 16)).text,
              ModelFolder::decoded(fixture.greedy));
    EXPECT_EQ(engine.decode(fixture.greedy), ModelFolder::decoded(fixture.greedy));
  });
}

// A stop text of three letters begins or ends in the middle of a token of two letters.
TEST(Engine, EndsBeforeAStopTextAtAnyPlaceInTheTokens) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  const ModelFolder folder(fixture);
  const std::string whole = ModelFolder::decoded(fixture.greedy);
  run_engine(comm, {.model = folder.path()}, [&](Engine& engine) {
    for (std::size_t begin = 0; begin + 5 <= whole.size(); begin += 3) {
      for (const std::size_t size : {1U, 3U, 5U}) {
        Request request = greedy_request(fixture.prompt, 16);
        request.stop = {"no such text", whole.substr(begin, size)};
        const std::size_t place = whole.find(request.stop[1]);
        const Continuation found = run_alone(engine, request);
        EXPECT_EQ(found.text, whole.substr(0, place)) << "stop text " << request.stop[1];
        EXPECT_EQ(found.reason, FinishReason::stop);
        // The last token contains the stop text's last letter.
        EXPECT_EQ(found.tokens, first(fixture.greedy, (place + size + 1) / 2));
      }
    }
    Request request = greedy_request(fixture.prompt, 16);
    request.stop = {whole.substr(30) + "and more"};  // the beginning is held back until the end
    EXPECT_EQ(run_alone(engine, request).text, whole);
  });
}

TEST(Engine, ReportsTheStopTextAndShowsItIfAsked) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  const ModelFolder folder(fixture);
  const std::string whole = ModelFolder::decoded(fixture.greedy);
  run_engine(comm, {.model = folder.path()}, [&](Engine& engine) {
    Request request = greedy_request(fixture.prompt, 16);
    request.stop = {"no such text", whole.substr(9, 3)};
    const std::size_t place = whole.find(request.stop[1]);
    EXPECT_EQ(std::get<std::string>(run_alone(engine, request).matched_stop), request.stop[1]);
    request.include_stop_str_in_output = true;
    EXPECT_EQ(run_alone(engine, request).text, whole.substr(0, place + 3));
    // The first min_tokens tokens are not searched for stop texts.
    request.min_tokens = static_cast<int>((place + 3 + 1) / 2);
    const Continuation longer = run_alone(engine, request);
    EXPECT_GT(longer.tokens.size(), static_cast<std::size_t>(request.min_tokens));
  });
}

TEST(Engine, GoesOnToMinTokensAndAvoidsBadWords) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  const ModelFolder folder(fixture);
  run_engine(comm, {.model = folder.path()}, [&](Engine& engine) {
    Request request = greedy_request(fixture.prompt, 16);
    request.ignore_eos = false;
    request.stop_token_ids = {fixture.greedy[0]};
    EXPECT_EQ(run_alone(engine, request).tokens, first(fixture.greedy, 1));
    request.min_tokens = 5;
    const Continuation longer = run_alone(engine, request);
    EXPECT_GE(longer.tokens.size(), 5U);
    EXPECT_EQ(std::count(longer.tokens.begin(), longer.tokens.begin() + 5, fixture.greedy[0]), 0);

    request = greedy_request(fixture.prompt, 16);
    request.bad_words = {ModelFolder::decoded({fixture.greedy[3]})};
    request.bad_words_ids = {{fixture.greedy[0], fixture.greedy[1]}};
    const Continuation clean = run_alone(engine, request);
    EXPECT_EQ(clean.tokens[0], fixture.greedy[0]);
    EXPECT_NE(clean.tokens[1], fixture.greedy[1]);
    EXPECT_EQ(clean.text.find(request.bad_words[0]) % 2, 1U) << "not as a token";
  });
}

TEST(Engine, ChoosesOnlyTokensThatBiasAndMaskAllow) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
    Request request = greedy_request(fixture.prompt, 6);
    request.sampling.logit_bias = {{17, 1000.0F}};
    EXPECT_EQ(run_alone(engine, request).tokens, std::vector<TokenId>(6, 17));
    request.sampling.logit_bias = {};
    request.allowed_tokens = [](std::span<const TokenId> generated) {
      TokenMask mask(320);
      mask.add(static_cast<TokenId>(300 + generated.size()));
      return mask;
    };
    for (const float temperature : {0.0F, 1.0F}) {
      request.sampling.temperature = temperature;
      EXPECT_EQ(run_alone(engine, request).tokens, (std::vector<TokenId>{300, 301, 302, 303, 304, 305}));
    }
  });
}

TEST(Engine, ForgetsACancelledRequestAndServesOtherRequests) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  const ModelFolder folder(fixture);
  run_engine(comm, {.model = folder.path(), .prefill_chunk = 16}, [&](Engine& engine) {
    Request several = greedy_request(fixture.prompt, 200);
    several.n = 3;
    const std::uint64_t cancelled = engine.submit(several);
    const std::uint64_t kept = engine.submit(greedy_request(fixture.prompt, 16));
    const std::uint64_t never_begun = engine.submit(greedy_request(fixture.prompt, 16));
    engine.cancel(never_begun);
    Continuations all;
    for (int i = 0; i < 6; ++i) {
      for (const TokenEvent& event : engine.step()) test::collect(event, all);
    }
    EXPECT_GT((all[{cancelled, 0}].tokens.size()), 0U);
    engine.cancel(cancelled);
    engine.cancel(cancelled);
    const std::size_t before = all[{cancelled, 0}].tokens.size();
    while (engine.has_work()) {
      for (const TokenEvent& event : engine.step()) test::collect(event, all);
    }
    EXPECT_EQ((all[{cancelled, 0}].tokens.size()), before);
    EXPECT_EQ(all.count({never_begun, 0}), 0U);
    EXPECT_EQ((all[{kept, 0}].tokens), fixture.greedy);
    EXPECT_EQ(run_alone(engine, greedy_request(fixture.prompt, 16)).tokens, fixture.greedy);
  });
}

TEST(Engine, EndsTheOtherRanksWithStatusZeroIfAllWentWell) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  EXPECT_EQ(run_engine(comm, {.model = fixture.folder}, [](Engine&) {}), 0);
}

TEST(Engine, EndsTheOtherRanksWithStatusOneIfRankZeroFails) {
  Communicator& comm = test::world();
  const Fixture fixture = reference::fixture("llama-gqa");
  int status = 0;
  try {
    status = run_engine(comm, {.model = fixture.folder}, [&](Engine& engine) {
      engine.submit(greedy_request(fixture.prompt, 16));
      engine.step();
      throw std::runtime_error("rank 0 loses interest");
    });
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "rank 0 loses interest");
    status = 1;
  }
  EXPECT_EQ(status, 1);
}

}  // namespace
}  // namespace tp
