// Passes over canvases: a canvas is computed in one step, its blocks are not shared, and the number of
// canvases with soft embeddings is limited.
#include "runtime/scheduling/leader.h"
#include "tests/runtime/scheduling/leader_run.h"

#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::chunk_sizes;
using test::prompt_of;

// A leader for canvases of up to 8 tokens, with blocks of 4 tokens and room for the soft embeddings of two
// canvases.
class CanvasPasses : public test::PassRun {
 public:
  explicit CanvasPasses(std::size_t blocks, std::size_t chunk = 16, std::size_t step_tokens = 32)
      : PassRun(LeaderOptions{
            .engine = {.model = "model", .prefill_chunk = chunk, .max_sequences = 2, .max_length = 1000},
            .vocab_size = 200,
            .eos_token_ids = {},
            .kind = ModelKind::diffusion,
            .diffusion = DiffusionSpec{.mask_token = -1, .block_length = 8, .canvas = true},
            .cache_blocks = blocks,
            .cache = {.block_size = 4, .chunk = chunk},
            .step_tokens = step_tokens}) {}

  // Adds a pass over a canvas of 8 tokens after a text of `text` tokens. `first`: the text's first token.
  RequestId add(std::size_t text, PassCanvas canvas, TokenId first = 0) {
    Request request;
    for (const TokenId id : prompt_of(text)) request.prompt.push_back(id + first);
    canvas.begin = text;
    for (std::size_t i = 0; i < 8; ++i) {
      request.candidates_at.push_back(request.prompt.size());
      request.prompt.push_back(static_cast<TokenId>(150 + i));
    }
    return add_pass(std::move(request), {.place = Pass::Place::later, .canvas = canvas});
  }
};

TEST(Leader, ComputesACanvasInOneStepAfterAllOfItsText) {
  CanvasPasses passes(64);
  passes.add(6, {.key = 1});
  EXPECT_EQ(chunk_sizes(passes.step()), (std::vector<std::size_t>{14}));
  passes.add(21, {.key = 2},
             30);  // chunks have at most 16 tokens; the rest of the text and the canvas fit into one
  EXPECT_EQ(chunk_sizes(passes.step()), (std::vector<std::size_t>{16}));
  EXPECT_EQ(chunk_sizes(passes.step()), (std::vector<std::size_t>{13}));
  passes.add(13, {.key = 3}, 60);  // the chunk has room for 3 more tokens, not for the canvas
  EXPECT_EQ(chunk_sizes(passes.step()), (std::vector<std::size_t>{13}));
  const Forward last = passes.step();
  EXPECT_EQ(chunk_sizes(last), (std::vector<std::size_t>{8}));
  EXPECT_EQ(last.tokens.front(), 150);
  EXPECT_EQ(passes.finished.size(), 3U);
}

TEST(Leader, SharesTheTextBeforeACanvasAndNothingOfTheCanvas) {
  CanvasPasses passes(64);
  passes.add(6, {.key = 1});
  passes.step();
  passes.add(6, {.key = 1});  // finds one block of 4 tokens; the next block contains tokens of the canvas
  EXPECT_EQ(chunk_sizes(passes.step()), (std::vector<std::size_t>{10}));
  Request text;  // a text with the canvas's tokens
  text.prompt = prompt_of(6);
  for (TokenId id = 150; id < 158; ++id) text.prompt.push_back(id);
  text.max_tokens = 0;
  text.candidates_at = {13};
  text.proposal = ProposalSettings{};
  passes.leader.submit_pass(text, [](const Event&) {}, {.place = Pass::Place::later});
  EXPECT_EQ(chunk_sizes(passes.step()), (std::vector<std::size_t>{10}));
  passes.leader.submit_pass(text, [](const Event&) {}, {.place = Pass::Place::later});
  EXPECT_EQ(chunk_sizes(passes.step()), (std::vector<std::size_t>{2}));
  passes.add(6, {.key = 1});  // finds no blocks of text at the positions of its canvas
  EXPECT_EQ(chunk_sizes(passes.step()), (std::vector<std::size_t>{10}));
}

TEST(Leader, LetsNewCanvasesWaitAndContinuesStartedOnes) {
  CanvasPasses passes(64);
  const RequestId first = passes.add(4, {.key = 1, .has_next = true});
  const RequestId second = passes.add(4, {.key = 2, .has_next = true}, 20);
  passes.step();
  EXPECT_EQ(passes.finished, (std::vector<RequestId>{first, second}));
  for (std::uint64_t key = 3; key < 103; ++key) passes.add(4, {.key = key, .has_next = true}, 40);
  const RequestId next = passes.add(4, {.key = 2, .has_room = true, .has_next = true}, 20);
  EXPECT_EQ(passes.step().chunks.size(), 1U);
  EXPECT_EQ(passes.finished.back(), next);
  passes.leader.release_passes(1);
  const Forward after = passes.step();
  EXPECT_EQ(after.chunks.size(), 1U);
  EXPECT_EQ(after.ended_canvases, (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(after.chunks[0].start->canvas.key, 3U);
  const RequestId without = passes.add(4, {.key = 2, .has_room = true}, 20);
  passes.step();
  EXPECT_EQ(passes.finished.back(), without);
  passes.leader.release_passes(2);
  passes.leader.release_passes(3);
  EXPECT_EQ(passes.step().chunks.size(), 2U);
}

}  // namespace
}  // namespace tp
