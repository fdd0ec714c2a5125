// Every encoder-decoder's fixture: states and logits that the original modelling code computed.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/layers/model.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tests/mpi_test.h"
#include "tests/reference/name_of_fixture.h"
#include "tests/runtime/engine/seq2seq_run.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Seq2SeqFixture;
using reference::Seq2SeqInput;
using test::decoder_logits;
using test::encoder_states;
using test::run_engine;

// The fixtures' float32 noise is 1e-5 according to meta.json. Ours adds different orders of summation and its
// own exp.
constexpr double kSeq2SeqTolerance = 1e-4;

class Seq2SeqFamily : public testing::TestWithParam<Seq2SeqFixture> {
 protected:
  bool has_heads() const { return load_config(fixture_.folder).num_attention_heads >= comm_.size(); }

  void run(const std::function<void(Engine&)>& body, EngineOptions options = {.block_size = 8}) {
    if (!has_heads()) GTEST_SKIP() << comm_.size() << " ranks are more than the heads";
    options.model = fixture_.folder;
    run_engine(comm_, options, body);
  }

  Communicator& comm_ = test::world();
  const Seq2SeqFixture fixture_ = GetParam();
};

TEST_P(Seq2SeqFamily, GivesTheEncodersStatesOfTheOriginalModellingCode) {
  run([&](Engine& engine) {
    EXPECT_LE(fixture_.encoder.difference(encoder_states(engine, fixture_.input)), kSeq2SeqTolerance);
  });
}

TEST_P(Seq2SeqFamily, GivesItsLogitsOfTheDecodersTokens) {
  run([&](Engine& engine) {
    EXPECT_LE(fixture_.logits.difference(decoder_logits(engine, fixture_.input)), kSeq2SeqTolerance);
  });
}

TEST_P(Seq2SeqFamily, GivesTheLogitsThatChoseTheGreedyTokens) {
  run([&](Engine& engine) {
    Seq2SeqInput input = {fixture_.input.ids, {fixture_.greedy_start}};
    input.decoder_ids.insert(input.decoder_ids.end(), fixture_.greedy.begin(), fixture_.greedy.end() - 1);
    EXPECT_LE(fixture_.greedy_rows.difference(decoder_logits(engine, input)), kSeq2SeqTolerance);
  });
}

// The decoder's prompt is computed in several steps, and its input in one.
TEST_P(Seq2SeqFamily, GivesTheSameLogitsInBlocksOfAnySize) {
  for (const std::size_t block_size : {1U, 3U, 32U}) {
    run(
        [&](Engine& engine) {
          EXPECT_LE(fixture_.logits.difference(decoder_logits(engine, fixture_.input)), kSeq2SeqTolerance);
        },
        {.block_size = block_size});
  }
}

TEST_P(Seq2SeqFamily, MatchesThePaddedBatchsRows) {
  run([&](Engine& engine) {
    std::vector<std::vector<float>> together(fixture_.batch.size());
    for (std::size_t row = 0; row < fixture_.batch.size(); ++row)
      test::collect_logits(engine, fixture_.batch[row], together[row]);
    while (engine.has_work()) engine.step();
    for (std::size_t row = 0; row < fixture_.batch.size(); ++row) {
      EXPECT_LE(fixture_.batch_encoder[row].difference(encoder_states(engine, fixture_.batch[row])),
                kSeq2SeqTolerance)
          << "row " << row;
      EXPECT_LE(fixture_.batch_logits[row].difference(together[row]), kSeq2SeqTolerance) << "row " << row;
    }
  });
}

TEST_P(Seq2SeqFamily, GivesTheSameBitsInABatchIfAskedFor) {
  run(
      [&](Engine& engine) {
        const std::vector<float> alone = decoder_logits(engine, fixture_.batch.front());
        std::vector<std::vector<float>> together(fixture_.batch.size());
        for (std::size_t row = 0; row < fixture_.batch.size(); ++row)
          test::collect_logits(engine, fixture_.batch[row], together[row]);
        while (engine.has_work()) engine.step();
        EXPECT_EQ(together.front(), alone);
      },
      {.same_bits = true, .block_size = 8});
}

TEST_P(Seq2SeqFamily, ReadsEveryTensorOnce) {
  if (!has_heads()) GTEST_SKIP() << comm_.size() << " ranks are more than the heads";
  const auto source = SafetensorsCheckpoint::open(fixture_.folder);
  const Model decoder(make_spec(load_config(fixture_.folder)), *source, {comm_.rank(), comm_.size()});
  EXPECT_EQ(source->bytes_read(), decoder.parameters() * sizeof(float));
  EXPECT_TRUE(decoder.unused_tensors().empty());
  if (comm_.size() == 1) {
    EXPECT_TRUE(source->unread().empty()) << source->unread().front();
    EXPECT_EQ(source->bytes_read(), source->stored_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Seq2SeqFamily, testing::ValuesIn(reference::seq2seq_fixtures()),
                         reference::name_of_fixture);

}  // namespace
}  // namespace tp
