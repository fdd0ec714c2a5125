// Every encoder's fixture: hidden states, logits and poolings that the original modelling code computed.
#include "model/config/config.h"
#include "runtime/text/embedder.h"
#include "tests/mpi_test.h"
#include "tests/reference/encoder_fixture.h"
#include "tests/reference/name_of_fixture.h"
#include "tests/runtime/engine/engine_run.h"
#include "tp/mpi.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <mpi.h>

namespace tp {
namespace {

using reference::EncoderFixture;
using reference::EncoderInput;
using test::run_engine;

// The fixtures' float32 noise is 1e-5 according to meta.json. Ours adds different orders of summation and its
// own exp.
constexpr double kTolerance = 1e-4;

Request request_of(const EncoderInput& input) {
  Request request;
  request.prompt = input.ids;
  request.max_tokens = 0;
  request.token_types = input.types;
  const bool any = std::ranges::find(input.is_global, 1) != input.is_global.end();
  if (any) request.global_tokens = input.is_global;
  return request;
}

std::vector<float> hidden_of(Engine& engine, const EncoderInput& input) {
  return test::hidden_of(engine, request_of(input));
}

std::vector<float> pooled_of(Engine& engine, const EncoderInput& input, Pooling pooling) {
  Request request = request_of(input);
  request.pooling = pooling;
  return test::pooled_of(engine, std::move(request));
}

std::vector<float> logits_of(Engine& engine, const EncoderInput& input) {
  Request request = request_of(input);
  request.prompt_logits = true;
  std::vector<float> all;
  engine.run(std::move(request), [&](const Event& event) {
    if (const auto* rows = std::get_if<PromptLogits>(&event))
      all.insert(all.end(), rows->logits.begin(), rows->logits.end());
  });
  return all;
}

double difference(const std::vector<float>& found, std::span<const float> expected) {
  if (found.size() != expected.size()) return INFINITY;
  double largest = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double apart = std::abs(static_cast<double>(found[i]) - expected[i]);
    largest = std::isnan(apart) ? INFINITY : std::max(largest, apart);
  }
  return largest;
}

class EncoderFamily : public testing::TestWithParam<EncoderFixture> {
 protected:
  void run(const std::function<void(Engine&)>& body, bool same_bits = false) {
    const CheckpointConfig config = load_config(fixture_.folder);
    if (config.num_attention_heads < comm_.size())
      GTEST_SKIP() << comm_.size() << " ranks, " << config.num_attention_heads << " heads";
    run_engine(comm_, {.model = fixture_.folder, .same_bits = same_bits, .block_size = 8}, body);
  }

  Communicator& comm_ = test::world();
  const EncoderFixture fixture_ = GetParam();
};

TEST_P(EncoderFamily, GivesTheHiddenStatesOfTheOriginalModellingCode) {
  run([&](Engine& engine) {
    EXPECT_LE(fixture_.hidden.difference(hidden_of(engine, fixture_.input)), kTolerance);
  });
}

TEST_P(EncoderFamily, GivesItsLogits) {
  if (!fixture_.logits) GTEST_SKIP() << "it has no language model head";
  run([&](Engine& engine) {
    EXPECT_LE(fixture_.logits->difference(logits_of(engine, fixture_.input)), kTolerance);
  });
}

TEST_P(EncoderFamily, GivesItsLabels) {
  if (!fixture_.labels) GTEST_SKIP() << "it is no classifier";
  run([&](Engine& engine) {
    ASSERT_EQ(engine.info().kind, ModelKind::classifier);
    const auto labels_of = [&](const EncoderInput& input) {
      return engine.sequence_head(pooled_of(engine, input, *engine.info().head_pooling));
    };
    EXPECT_LE(difference(labels_of(fixture_.input), *fixture_.labels), kTolerance);
    ASSERT_EQ(fixture_.batch_labels.size(), fixture_.batch.size());
    for (std::size_t row = 0; row < fixture_.batch.size(); ++row)
      EXPECT_LE(difference(labels_of(fixture_.batch[row]), fixture_.batch_labels[row]), kTolerance) << row;
  });
}

TEST_P(EncoderFamily, GivesThePoolersOutputForTheFirstToken) {
  if (!fixture_.pooler) GTEST_SKIP() << "it has no pooler";
  run([&](Engine& engine) {
    ASSERT_EQ(engine.info().head_pooling, Pooling::first);
    EXPECT_LE(
        difference(engine.sequence_head(pooled_of(engine, fixture_.input, Pooling::first)), *fixture_.pooler),
        kTolerance);
  });
}

// BigBird's blocks depend on the batch's padding, so only the row without padding can be compared.
TEST_P(EncoderFamily, MatchesThePaddedBatchsRows) {
  if (fixture_.batch_hidden.empty()) GTEST_SKIP() << "nothing is known of its states";
  run([&](Engine& engine) {
    std::size_t longest = 0;
    for (const EncoderInput& input : fixture_.batch) longest = std::max(longest, input.ids.size());
    for (std::size_t row = 0; row < fixture_.batch.size(); ++row) {
      const EncoderInput& input = fixture_.batch[row];
      if (fixture_.name.starts_with("bigbird-sparse") && input.ids.size() < longest) continue;
      EXPECT_LE(fixture_.batch_hidden[row].difference(hidden_of(engine, input)), kTolerance) << "row " << row;
    }
  });
}

// Without a pipeline's files, the fixtures contain the mean with length 1, or NeoBERT's first state.
TEST_P(EncoderFamily, GivesTheEmbeddingsOfTheOriginalPipeline) {
  if (!fixture_.embedding) GTEST_SKIP() << "it embeds nothing";
  run([&](Engine& engine) {
    EmbedOptions options;
    if (fixture_.name == "neobert-mlm")
      options.pooling = Pooling::first;
    else if (!std::filesystem::exists(fixture_.folder / "modules.json"))
      options.normalize = true;
    const Embedder embedder(engine, fixture_.folder, options);
    const auto embedding_of = [&](const EncoderInput& input) {
      Request request = embedder.ask_for_state(prompt_request(input.ids, input.types));
      return embedder.embedding(pooled_of(engine, input, *request.pooling));
    };
    EXPECT_LE(difference(embedding_of(fixture_.input), *fixture_.embedding), kTolerance);
    for (std::size_t row = 0; row < fixture_.batch_embedding.size(); ++row)
      EXPECT_LE(difference(embedding_of(fixture_.batch[row]), fixture_.batch_embedding[row]), kTolerance)
          << row;
  });
}

TEST_P(EncoderFamily, HasTheSameBitsOnAnyNumberOfRanks) {
  const bool same_bits = true;
  run(
      [&](Engine& engine) {
        Communicator self(MPI_COMM_SELF);
        Engine alone(self, {.model = fixture_.folder, .same_bits = same_bits, .block_size = 8});
        EXPECT_EQ(hidden_of(engine, fixture_.input), hidden_of(alone, fixture_.input));
      },
      same_bits);
}

// Sequences of different lengths share a step without padding, and do not affect each other.
TEST_P(EncoderFamily, GivesTheSameResultsInABatch) {
  run([&](Engine& engine) {
    std::vector<std::vector<float>> alone;
    for (const EncoderInput& input : fixture_.batch) alone.push_back(hidden_of(engine, input));
    std::vector<std::vector<float>> together(fixture_.batch.size());
    for (std::size_t row = 0; row < fixture_.batch.size(); ++row) {
      Request request = request_of(fixture_.batch[row]);
      request.prompt_hidden = true;
      engine.submit(std::move(request), test::hidden_into(together[row]));
    }
    std::size_t steps = 0;
    for (; engine.has_work(); ++steps) engine.step();
    if (engine.info().kind != ModelKind::decoder) {
      EXPECT_LE(steps, 2U);
    }
    for (std::size_t row = 0; row < alone.size(); ++row)
      EXPECT_LE(difference(together[row], alone[row]), 1e-5) << "row " << row;
  });
}

TEST_P(EncoderFamily, GivesTheSameBitsInABatchIfAskedFor) {
  run(
      [&](Engine& engine) {
        const std::vector<float> alone = pooled_of(engine, fixture_.input, Pooling::mean);
        std::vector<float> together;
        for (int i = 0; i < 3; ++i) {
          Request request = request_of(fixture_.input);
          request.pooling = Pooling::mean;
          engine.submit(std::move(request), [&together](const Event& event) {
            if (const auto* state = std::get_if<PooledHidden>(&event)) together = state->state;
          });
        }
        while (engine.has_work()) engine.step();
        EXPECT_EQ(together, alone);
      },
      true);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, EncoderFamily, testing::ValuesIn(reference::encoder_fixtures()),
                         reference::name_of_fixture);

}  // namespace
}  // namespace tp
