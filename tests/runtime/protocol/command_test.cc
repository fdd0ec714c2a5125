#include "runtime/protocol/command.h"

#include "parallel/exchange/archive.h"
#include "runtime/protocol/command_archive.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

template <class T>
T sent(const T& command) {
  Command received = Stop{7};
  from_archive(to_archive(Command(command)), received);
  return std::get<T>(received);
}

TEST(Command, SurvivesTheWayToOtherRanks) {
  EXPECT_EQ(sent(Stop{-3}).exit_status, -3);
  sent(Report{});
  sent(ResetStatistics{});
  sent(StartTrace{});
  sent(GatherTrace{});
}

TEST(Command, ContainsTheStoresWork) {
  StoredRun run{
      .before = {1, 2}, .id = {3, 4}, .tokens = {5, 6}, .blocks = {7, kNoBlock}, .state = 8, .position = 70};
  const StoreWork received = sent(StoreWork{{{9, {run}}}, {{10, {run, run}}}, {11}});
  ASSERT_EQ(received.saves.size(), 1U);
  EXPECT_EQ(received.saves[0].id, 9U);
  ASSERT_EQ(received.loads.size(), 1U);
  EXPECT_EQ(received.loads[0].id, 10U);
  ASSERT_EQ(received.loads[0].runs.size(), 2U);
  EXPECT_EQ(received.cancelled, std::vector<std::uint64_t>{11});
  const StoredRun& last = received.loads[0].runs[1];
  EXPECT_EQ(last.before, run.before);
  EXPECT_EQ(last.id, run.id);
  EXPECT_EQ(last.tokens, run.tokens);
  EXPECT_EQ(last.blocks, run.blocks);
  EXPECT_EQ(last.state, run.state);
  EXPECT_EQ(last.position, run.position);
}

TEST(Command, CarriesAllFieldsOfAForwardPass) {
  Forward forward;
  forward.tokens = {5, 0, 2147483647};
  forward.chunks.resize(2);
  forward.chunks[0] = {.sequence = 1ULL << 40, .start_position = 7, .tokens = 3, .new_blocks = {4, 9}};
  forward.chunks[0].state = {.slot = 3, .from = 8, .saves = {{9, 5}, {10, 0}}};
  SequenceStart& start_sent = forward.chunks[0].start.emplace();
  start_sent.seed = 1ULL << 60;
  start_sent.sample = 8;
  start_sent.prefix = {9, 10};
  start_sent.prompt_tokens = 11;
  start_sent.canvas = {.begin = 21, .key = 1ULL << 50, .has_next = true};
  SamplingParams& sampling = start_sent.sampling;
  sampling.temperature = 0.5F;
  sampling.top_k = 3;
  sampling.top_p = 0.25F;
  sampling.min_p = 0.125F;
  sampling.repetition_penalty = 1.5F;
  sampling.presence_penalty = 2.5F;
  sampling.frequency_penalty = 3.5F;
  sampling.logprobs = 4;
  sampling.logit_bias.push_back({6, -7.5F});
  forward.chunks[1] = {.sequence = 2, .start_position = 0, .tokens = 1, .new_blocks = {}};
  forward.outputs = {{1, {2, 1}, want::Choose{}},
                     {2, {0, 1}, want::Candidates{12, true}},
                     {3, {1, 2}, want::Score{{13, 14}}},
                     {4, {3, 4}, want::Logits{}},
                     {5, {0, 1}, want::Hidden{}}};
  forward.ended = {11, 12};
  forward.ended_canvases = {13, 1ULL << 50};

  const Forward received = sent(forward);
  EXPECT_EQ(received.tokens, forward.tokens);
  ASSERT_EQ(received.chunks.size(), 2U);
  EXPECT_EQ(received.chunks[0].sequence, 1ULL << 40);
  EXPECT_EQ(received.chunks[0].start_position, 7U);
  EXPECT_EQ(received.chunks[0].start->canvas.begin, 21U);
  EXPECT_EQ(received.chunks[0].start->canvas.key, 1ULL << 50);
  EXPECT_TRUE(received.chunks[0].start->canvas.has_next);
  EXPECT_EQ(received.ended_canvases, forward.ended_canvases);
  EXPECT_EQ(received.chunks[0].tokens, 3U);
  EXPECT_EQ(received.chunks[0].new_blocks, (std::vector<BlockId>{4, 9}));
  EXPECT_EQ(received.chunks[0].state.slot, 3);
  EXPECT_EQ(received.chunks[0].state.from, 8);
  ASSERT_EQ(received.chunks[0].state.saves.size(), 2U);
  EXPECT_EQ(received.chunks[0].state.saves[0].position, 9U);
  EXPECT_EQ(received.chunks[0].state.saves[0].slot, 5);
  EXPECT_EQ(received.chunks[1].state.slot, kNoSlot);
  EXPECT_FALSE(received.chunks[1].start.has_value());
  ASSERT_TRUE(received.chunks[0].start.has_value());
  const SequenceStart& start = *received.chunks[0].start;
  EXPECT_EQ(start.sampling.temperature, 0.5F);
  EXPECT_EQ(start.sampling.top_k, 3);
  EXPECT_EQ(start.sampling.top_p, 0.25F);
  EXPECT_EQ(start.sampling.min_p, 0.125F);
  EXPECT_EQ(start.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(start.sampling.presence_penalty, 2.5F);
  EXPECT_EQ(start.sampling.frequency_penalty, 3.5F);
  EXPECT_EQ(start.sampling.logprobs, 4);
  ASSERT_EQ(start.sampling.logit_bias.size(), 1U);
  EXPECT_EQ(start.sampling.logit_bias[0].id, 6);
  EXPECT_EQ(start.sampling.logit_bias[0].bias, -7.5F);
  EXPECT_EQ(start.seed, 1ULL << 60);
  EXPECT_EQ(start.sample, 8U);
  EXPECT_EQ(start.prefix, (std::vector<TokenId>{9, 10}));
  EXPECT_EQ(start.prompt_tokens, 11U);
  ASSERT_EQ(received.outputs.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(received.outputs[i].sequence, i + 1);
    EXPECT_EQ(received.outputs[i].rows.first, forward.outputs[i].rows.first);
    EXPECT_EQ(received.outputs[i].rows.count, forward.outputs[i].rows.count);
    EXPECT_EQ(received.outputs[i].want.index(), i);
  }
  EXPECT_EQ(std::get<want::Candidates>(received.outputs[1].want).count, 12U);
  EXPECT_TRUE(std::get<want::Candidates>(received.outputs[1].want).entropy);
  EXPECT_EQ(std::get<want::Score>(received.outputs[2].want).targets, (std::vector<TokenId>{13, 14}));
  EXPECT_EQ(received.ended, forward.ended);
}

TEST(Command, RejectsUnknownKinds) {
  Command received;
  EXPECT_THROW(from_archive(to_archive(std::uint8_t{99}), received), CommError);
}

// 16 generating sequences: the message that every token costs must fit into one broadcast.
TEST(Command, ForADecodingBatchFitsIntoOneMessage) {
  Forward forward;
  for (SequenceId id = 0; id < 16; ++id) {
    forward.tokens.push_back(1000);
    forward.chunks.push_back({.sequence = id,
                              .start_position = 500,
                              .tokens = 1,
                              .new_blocks = id % 8 == 0 ? std::vector<BlockId>{7} : std::vector<BlockId>{}});
    forward.outputs.push_back({id, {static_cast<std::uint32_t>(id), 1}, want::Choose{}});
  }
  EXPECT_LE(to_archive(Command(forward)).size(), 2040U);
}

}  // namespace
}  // namespace tp
