// Texts of encoder-decoders in batches, with a cache for encoded inputs and decoder tokens.
#include "model/config/config.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tests/reference/name_of_fixture.h"
#include "tests/runtime/engine/seq2seq_run.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using reference::Seq2SeqFixture;
using test::Continuation;
using test::Continuations;
using test::greedy_seq2seq;
using test::run_all;
using test::run_alone;
using test::run_engine;
using test::TemporaryDirectory;

// A fixture's model with additional fields in config.json.
class AdaptedModel {
 public:
  AdaptedModel(const Seq2SeqFixture& fixture, const nlohmann::json& fields) {
    for (const auto& entry : std::filesystem::directory_iterator(fixture.folder))
      if (entry.path().extension() == ".safetensors")
        std::filesystem::copy(entry.path(), directory_.path() / entry.path().filename());
    std::ifstream stream(fixture.folder / "config.json");
    nlohmann::json config = nlohmann::json::parse(stream);
    for (const auto& [name, value] : fields.items()) {
      if (value.is_null())
        config.erase(name);
      else
        config[name] = value;
    }
    directory_.write("config.json", config.dump());
  }

  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

class Seq2SeqGeneration : public testing::TestWithParam<Seq2SeqFixture> {
 protected:
  void run(const std::function<void(Engine&)>& body, EngineOptions options = {.block_size = 8}) {
    if (load_config(fixture_.folder).num_attention_heads < comm_.size())
      GTEST_SKIP() << comm_.size() << " ranks are more than the heads";
    if (options.model.empty()) options.model = fixture_.folder;
    run_engine(comm_, options, body);
  }
  int greedy_tokens() const { return static_cast<int>(fixture_.greedy.size()); }

  Communicator& comm_ = test::world();
  const Seq2SeqFixture fixture_ = GetParam();
};

TEST_P(Seq2SeqGeneration, ContinuesGreedilyAsTheOriginalModellingCode) {
  run([&](Engine& engine) {
    EXPECT_EQ(run_alone(engine, greedy_seq2seq(fixture_.input.ids, greedy_tokens())).tokens, fixture_.greedy);
  });
}

// The cache has room for two sequences, so some are preempted, and their inputs are encoded again.
TEST_P(Seq2SeqGeneration, GivesTheSameTextsInABatch) {
  const std::size_t longest = fixture_.batch.front().ids.size() + 2 * 8 + fixture_.greedy.size();
  run(
      [&](Engine& engine) {
        std::vector<std::vector<TokenId>> alone;
        for (const auto& input : fixture_.batch) {
          Request request = greedy_seq2seq(input.ids, greedy_tokens());
          request.cache_prompt = false;
          alone.push_back(run_alone(engine, request).tokens);
        }
        std::map<std::uint64_t, std::size_t> inputs;
        for (std::size_t i = 0; i < 9; ++i) {
          const std::size_t row = i % fixture_.batch.size();
          inputs[engine.submit(greedy_seq2seq(fixture_.batch[row].ids, greedy_tokens()))] = row;
        }
        const Continuations together = run_all(engine);
        ASSERT_EQ(together.size(), inputs.size());
        for (const auto& [id, continuation] : together)
          EXPECT_EQ(continuation.tokens, alone[inputs.at(id.first)]) << "row " << inputs.at(id.first);
        EXPECT_EQ(engine.status().used_blocks, 0U) << "blocks are not given back";
      },
      {.max_sequences = 6, .block_size = 8, .cache_tokens = 2 * longest});
}

TEST_P(Seq2SeqGeneration, EncodesAnInputOnceForAllOfItsContinuations) {
  run([&](Engine& engine) {
    Request request = greedy_seq2seq(fixture_.input.ids, greedy_tokens());
    request.sampling.temperature = 1.0F;
    request.sampling.seed = 7;
    request.n = 3;
    const std::size_t before = engine.status().computed_prompt_tokens;
    engine.submit(request);
    const Continuations all = run_all(engine);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all.begin()->second.cached_tokens, 0U);
    for (auto next = std::next(all.begin()); next != all.end(); ++next)
      EXPECT_EQ(next->second.cached_tokens, fixture_.input.ids.size());
    const std::size_t computed = engine.status().computed_prompt_tokens - before;
    EXPECT_LT(computed, 2 * fixture_.input.ids.size());
    // Drawn tokens do not depend on other cached sequences.
    request.cache_prompt = false;
    engine.submit(request);
    const Continuations again = run_all(engine);
    auto one = all.begin();
    for (auto other = again.begin(); other != again.end(); ++other, ++one)
      EXPECT_EQ(other->second.tokens, one->second.tokens);
  });
}

// Both requests have the same first decoder tokens.
TEST_P(Seq2SeqGeneration, NeverFindsTheTokensOfAnotherInputInTheCache) {
  run([&](Engine& engine) {
    const std::vector<TokenId> decoder_prompt(fixture_.input.decoder_ids);
    std::vector<TokenId> changed = fixture_.input.ids;
    changed.back() = (changed.back() + 1) % 250;
    const auto continue_input = [&](const std::vector<TokenId>& ids, bool cached) {
      Request request = greedy_seq2seq(ids, 4);
      request.decoder_prompt = decoder_prompt;
      request.cache_prompt = cached;
      return run_alone(engine, request);
    };
    const Continuation fresh = continue_input(changed, false);
    continue_input(fixture_.input.ids, true);
    const Continuation after = continue_input(changed, true);
    EXPECT_EQ(after.tokens, fresh.tokens);
    EXPECT_EQ(after.cached_tokens, 0U);
    EXPECT_GE(continue_input(changed, true).cached_tokens, changed.size());
  });
}

TEST_P(Seq2SeqGeneration, BeginsAndEndsWithTheModelsForcedTokens) {
  const AdaptedModel model(fixture_, {{"forced_bos_token_id", 17}, {"forced_eos_token_id", 9}});
  run(
      [&](Engine& engine) {
        Request request = greedy_seq2seq(fixture_.input.ids, 5);
        request.ignore_eos = false;
        const std::vector<TokenId> tokens = run_alone(engine, request).tokens;
        ASSERT_EQ(tokens.size(), 5U);
        EXPECT_EQ(tokens.front(), 17);
        EXPECT_EQ(tokens.back(), 9);
        request.forced_first = 18;
        EXPECT_EQ(run_alone(engine, request).tokens.front(), 18);
      },
      {.model = model.path(), .block_size = 8});
}

TEST_P(Seq2SeqGeneration, NeverChoosesBadWordsOfTheModelsFiles) {
  const TokenId first = fixture_.greedy.front();
  const AdaptedModel model(fixture_, {{"bad_words_ids", {{first}}}});
  run(
      [&](Engine& engine) {
        const auto tokens = run_alone(engine, greedy_seq2seq(fixture_.input.ids, 8)).tokens;
        EXPECT_EQ(std::ranges::count(tokens, first), 0);
      },
      {.model = model.path(), .block_size = 8});
}

TEST_P(Seq2SeqGeneration, RejectsUnsupportedRequests) {
  const AdaptedModel model(fixture_, {{"decoder_start_token_id", nullptr}});
  run(
      [&](Engine& engine) {
        const auto error_of = [&](const Request& request) {
          return test::error_of<RequestError>([&] { engine.submit(request); });
        };
        Request request = greedy_seq2seq(fixture_.input.ids, 4);
        EXPECT_CONTAINS(error_of(request), "expected decoder_start_token_id in config.json or");
        request.decoder_prompt = {300};
        EXPECT_EQ(error_of(request),
                  "decoder_prompt has token id 300, but the vocabulary has the ids 0 to 255; is it this "
                  "model's prompt?");
        request.decoder_prompt = {1};
        request.prompt.assign(600, 5);
        EXPECT_CONTAINS(error_of(request), "the input has 600 tokens but the encoder reads at most ");
        request.prompt = fixture_.input.ids;
        request.decoder_prompt.assign(600, 5);
        EXPECT_CONTAINS(error_of(request), "decoder_prompt has 600 tokens but a text has at most ");
        Request score;
        score.prompt = fixture_.input.ids;
        score.decoder_prompt = {1};
        score.max_tokens = 0;
        score.score_from = 1;
        EXPECT_CONTAINS(error_of(score), "cannot score a text: ");
      },
      {.model = model.path(), .block_size = 8});
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Seq2SeqGeneration, testing::ValuesIn(reference::seq2seq_fixtures()),
                         reference::name_of_fixture);

}  // namespace
}  // namespace tp
