// Accepted proposals of a pass over a canvas, the end of a canvas, and the text of canvases.
#include "runtime/modes/canvas_progress.h"

#include "runtime/cache/soft_embeddings.h"
#include "runtime/modes/unmasked_text.h"
#include "tp/error.h"

#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

namespace tp {
namespace {

using Positions = std::vector<std::size_t>;

// Proposals with these entropies. The token 50 + i is proposed at position i, and `best` is the most
// probable.
std::vector<Proposal> proposals_of(const std::vector<double>& entropies, TokenId best = 9) {
  std::vector<Proposal> proposals;
  for (std::size_t i = 0; i < entropies.size(); ++i)
    proposals.push_back({.id = static_cast<TokenId>(50 + i), .confidence = -entropies[i], .best = best});
  return proposals;
}

TEST(CanvasProgress, AcceptsWhileTheEntropiesBeforeStayWithinTheBound) {
  const auto accepted = [](float bound, const std::vector<double>& entropies) {
    return CanvasProgress({.entropy_bound = bound}, 5).take(proposals_of(entropies));
  };
  EXPECT_EQ(accepted(0.125F, {3.0, 0.5, 2.0}), (Positions{1}));
  EXPECT_EQ(accepted(0.5F, {3.0, 0.5, 2.0}), (Positions{1, 2}));  // 0.5 <= 0.5, then 0.5 + 2.0 > 0.5
  EXPECT_EQ(accepted(2.5F, {3.0, 0.5, 2.0}), (Positions{0, 1, 2}));
  EXPECT_EQ(accepted(1.0F, {1.0, 1.0, 1.0, 1.0}), (Positions{0, 1}));  // earlier positions come first
  EXPECT_EQ(accepted(0.125F, {0.0, 0.0, 0.25, 0.0, 0.5}), (Positions{0, 1, 2, 3}));
}

TEST(CanvasProgress, HasATemperatureThatFallsWithThePassesThatAreLeft) {
  CanvasProgress canvas({.t_min = 0.4F, .t_max = 0.8F}, 4);
  for (const float expected : {0.8F, 0.7F, 0.6F, 0.5F}) {
    EXPECT_FLOAT_EQ(canvas.temperature(), expected);
    EXPECT_EQ(canvas.is_last_pass(), expected == 0.5F);
    EXPECT_FALSE(canvas.ended());
    canvas.take(proposals_of({5.0}));
  }
  EXPECT_TRUE(canvas.ended());
}

TEST(CanvasProgress, EndsIfTokensAreStableAndCertain) {
  const auto passes = [](std::size_t stability, const std::vector<std::pair<double, TokenId>>& all) {
    CanvasProgress canvas({.stability_threshold = stability, .confidence_threshold = 0.5F}, 9);
    std::size_t count = 0;
    for (const auto& [entropy, best] : all) {
      canvas.take(proposals_of({entropy, entropy}, best));
      ++count;
      if (canvas.ended()) break;
    }
    return count;
  };
  EXPECT_EQ(passes(0, {{0.75, 1}, {0.25, 2}, {0.25, 2}}), 2U);
  EXPECT_EQ(passes(1, {{0.25, 1}, {0.25, 2}, {0.75, 2}, {0.25, 2}, {0.25, 2}}), 4U);
  EXPECT_EQ(passes(2, {{0.25, 1}, {0.25, 1}, {0.25, 2}, {0.25, 2}, {0.25, 2}, {0.25, 2}}), 5U);
  EXPECT_EQ(passes(1, {{0.5, 1}, {0.5, 1}, {0.5, 1}}), 3U) << "the threshold itself is not below it";
}

UnmaskingPlan canvas_plan(const Unmasking& asked, std::size_t tokens, const CanvasDefaults& defaults = {}) {
  const DiffusionSpec spec{.mask_token = -1, .block_length = 4, .canvas = true};
  return {spec, asked, tokens, defaults};
}

TEST(UnmaskedText, TurnsRandomCanvasesIntoTheMostProbableTokens) {
  const UnmaskingPlan plan = canvas_plan({.steps = 4}, 6, {.entropy_bound = 0.5F});
  const auto random = [](std::size_t draw, std::size_t position) {
    return static_cast<TokenId>(100 * (draw + 1) + position);
  };
  UnmaskedText text(plan, {1, 2, 3}, 6, 1000, random);
  const auto tokens = [&] {
    return std::vector<TokenId>(text.pass_tokens().begin(), text.pass_tokens().end());
  };
  EXPECT_EQ(tokens(), (std::vector<TokenId>{1, 2, 3, 100, 101, 102, 103}));
  EXPECT_EQ(text.pass_rows(), (Positions{3, 4, 5, 6}));
  EXPECT_EQ(text.canvas_begin(), 3U);
  EXPECT_FALSE(text.continues_block());
  const std::vector<UnmaskedToken> accepted = text.unmask(proposals_of({2.0, 0.25, 0.5, 2.0}, 8));
  ASSERT_EQ(accepted.size(), 2U);
  EXPECT_EQ(accepted[0].position, 4U);
  EXPECT_EQ(accepted[1].id, 52);
  EXPECT_EQ(tokens(), (std::vector<TokenId>{1, 2, 3, 200, 51, 52, 203}));
  EXPECT_TRUE(text.continues_block());
  EXPECT_EQ(text.unmasked_end(), 3U);
  // After its last pass, a canvas becomes the most probable tokens. The next draw is the next canvas's.
  text.unmask(proposals_of({2.0, 2.0, 2.0, 2.0}, 9));
  EXPECT_EQ(text.unmasked_end(), 7U);
  EXPECT_EQ(tokens(), (std::vector<TokenId>{1, 2, 3, 9, 9, 9, 9, 300, 301, 302, 303}));
  EXPECT_FALSE(text.continues_block());
  text.unmask(proposals_of({1.0, 1.0, 1.0, 1.0}));
  text.unmask(proposals_of({1.0, 1.0, 1.0, 1.0}, 6));
  EXPECT_TRUE(text.done());
  EXPECT_EQ(text.passes(), 4U);
  EXPECT_EQ(text.token(10), 6);
}

TEST(UnmaskedText, CutsTheLastCanvasWhereTheContextEnds) {
  UnmaskedText text(canvas_plan({}, 8), {1, 2, 3}, 6, 9, [](std::size_t, std::size_t) { return 7; });
  EXPECT_EQ(text.size(), 9U);
  EXPECT_EQ(text.pass_rows().size(), 4U);
  for (int pass = 0; pass < 48; ++pass) text.unmask(proposals_of({1.0, 1.0, 1.0, 1.0}, pass));
  EXPECT_EQ(text.pass_rows(), (Positions{7, 8}));
}

TEST(UnmaskingPlan, HasTheModelsPassesForACanvasAndNoRules) {
  EXPECT_EQ(canvas_plan({}, 8).passes, 48U);
  EXPECT_EQ(canvas_plan({}, 8, {.max_denoising_steps = 5}).passes, 5U);
  EXPECT_EQ(canvas_plan({.steps = 6}, 8).passes, 3U);
  EXPECT_EQ(canvas_plan({.block_length = 2}, 8).block_length, 2U);
  EXPECT_THROW(canvas_plan({.block_length = 5}, 8), RequestError);
  EXPECT_THROW(canvas_plan({.rule = UnmaskRule::low_confidence}, 8), RequestError);
  EXPECT_THROW(canvas_plan({.threshold = 0.5F}, 8), RequestError);
}

TEST(SoftEmbeddings, AreKeptForACanvasUntilItEnds) {
  SoftEmbeddings memory(2, 3, 4);
  EXPECT_EQ(memory.find(5, 0), nullptr);
  memory.room(5, 0)[0] = 1.0F;
  memory.room(5, 2)[3] = 2.0F;
  memory.room(6, 0)[0] = 3.0F;
  EXPECT_EQ(memory.find(5, 0)[0], 1.0F);
  EXPECT_EQ(memory.find(5, 2)[3], 2.0F);
  EXPECT_EQ(memory.find(6, 0)[0], 3.0F);
  EXPECT_EQ(memory.find(5, 3), nullptr);
  EXPECT_THROW(memory.room(7, 0), std::logic_error);
  EXPECT_THROW(memory.room(6, 3), std::logic_error);
  memory.drop(5);
  memory.drop(5);
  EXPECT_EQ(memory.find(5, 0), nullptr);
  memory.room(7, 1)[0] = 4.0F;
  EXPECT_EQ(memory.find(7, 1)[0], 4.0F);
  EXPECT_EQ(memory.find(6, 0)[0], 3.0F);
}

}  // namespace
}  // namespace tp
