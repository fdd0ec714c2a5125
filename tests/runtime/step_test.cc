#include "runtime/step.h"

#include "parallel/archive.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

TEST(Step, SurvivesTheWayToOtherRanks) {
  Step sent;
  sent.kind = Step::Kind::report;
  sent.exit_status = -3;
  sent.tokens = {5, 0, 2147483647};
  sent.chunks = {
      {.sequence = 1ULL << 40, .start_position = 7, .tokens = 3, .first_chunk = true, .new_blocks = {4, 9}},
      {.sequence = 2, .start_position = 0, .tokens = 1, .first_chunk = false, .new_blocks = {}}};
  sent.outputs = {{.row = 2, .candidates = 128256}, {.row = 0, .candidates = 0, .target = 77}};
  sent.ended = {11, 12};
  Step received;
  received.tokens = {1, 2, 3, 4};
  from_archive(to_archive(sent), received);
  EXPECT_EQ(received.kind, sent.kind);
  EXPECT_EQ(received.exit_status, -3);
  EXPECT_EQ(received.tokens, sent.tokens);
  ASSERT_EQ(received.chunks.size(), 2U);
  EXPECT_EQ(received.chunks[0].sequence, 1ULL << 40);
  EXPECT_EQ(received.chunks[0].start_position, 7U);
  EXPECT_EQ(received.chunks[0].tokens, 3U);
  EXPECT_TRUE(received.chunks[0].first_chunk);
  EXPECT_EQ(received.chunks[0].new_blocks, (std::vector<BlockId>{4, 9}));
  EXPECT_FALSE(received.chunks[1].first_chunk);
  ASSERT_EQ(received.outputs.size(), 2U);
  EXPECT_EQ(received.outputs[0].row, 2U);
  EXPECT_EQ(received.outputs[0].candidates, 128256U);
  EXPECT_EQ(received.outputs[0].target, -1);
  EXPECT_EQ(received.outputs[1].target, 77);
  EXPECT_EQ(received.ended, sent.ended);
}

// 16 sequences that generate: the message that every token costs must fit into one broadcast.
TEST(Step, OfADecodingBatchFitsIntoOneMessage) {
  Step step;
  for (SequenceId id = 0; id < 16; ++id) {
    step.tokens.push_back(1000);
    step.chunks.push_back({.sequence = id,
                           .start_position = 500,
                           .tokens = 1,
                           .first_chunk = false,
                           .new_blocks = id % 8 == 0 ? std::vector<BlockId>{7} : std::vector<BlockId>{}});
    step.outputs.push_back({.row = static_cast<std::uint32_t>(id), .candidates = 1});
  }
  EXPECT_LE(to_archive(step).size(), 2040U);
}

}  // namespace
}  // namespace tp
