// Limits of thinking: which token is forced next.
#include "runtime/text/thinking_watch.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

ThinkingLimit limit_of(int tokens, bool has_begun = false) {
  return {
      .max_tokens = tokens, .begin = "<think>", .end = "</think>", .end_ids = {7, 8}, .has_begun = has_begun};
}

// Returns the forced tokens and their indices if the model generates `texts`. The forced text is
// "\n</think>".
std::vector<std::pair<std::size_t, TokenId>> forced_by(ThinkingLimit limit,
                                                       const std::vector<std::string>& texts) {
  ThinkingWatch watch(std::move(limit));
  std::vector<std::pair<std::size_t, TokenId>> forced;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::optional<TokenId> token = watch.forced_next();
    if (token) forced.emplace_back(i, *token);
    if (token)
      watch.push(*token, *token == 7 ? "\n" : "</think>");
    else
      watch.push(100, texts[i]);
  }
  return forced;
}

using Forced = std::vector<std::pair<std::size_t, TokenId>>;

TEST(ThinkingWatch, ForcesTheEndAfterTheLimit) {
  const std::vector<std::string> texts = {"<think>", "a", "b", "c", "d", "e", "f", "g"};
  EXPECT_EQ(forced_by(limit_of(3), texts), (Forced{{4, 7}, {5, 8}}));
  EXPECT_EQ(forced_by(limit_of(3, true), {"a", "b", "c", "d", "e", "f"}), (Forced{{3, 7}, {4, 8}}));
}

TEST(ThinkingWatch, ForcesTheEndAtOnceIfNothingMayBeThought) {
  EXPECT_EQ(forced_by(limit_of(0, true), {"a", "b", "c"}), (Forced{{0, 7}, {1, 8}}));
  EXPECT_EQ(forced_by(limit_of(0), {"<think>", "b", "c", "d"}), (Forced{{1, 7}, {2, 8}}));
}

TEST(ThinkingWatch, LeavesAModelAloneThatEndsByItselfOrDoesNotThink) {
  EXPECT_EQ(forced_by(limit_of(3), {"<think>", "a", "b", "</think>", "d", "e", "f"}), Forced{});
  EXPECT_EQ(forced_by(limit_of(1), {"a", "b", "c", "d", "e", "f"}), Forced{});
}

TEST(ThinkingWatch, FindsMarkersThatSpanTokensOrAreInsideOfOne) {
  EXPECT_EQ(forced_by(limit_of(2), {"x<th", "ink", ">y", "a", "b", "c", "d"}), (Forced{{5, 7}, {6, 8}}));
  EXPECT_EQ(forced_by(limit_of(2), {"<think>a</think>b<thi", "nk>", "a", "b", "c"}), (Forced{{4, 7}}));
}

TEST(ThinkingWatch, KnowsHowManyTokensCanComeBeforeOneIsForced) {
  const auto free_tokens = [](ThinkingLimit limit, const std::vector<std::string>& texts) {
    ThinkingWatch watch(std::move(limit));
    for (const std::string& text : texts) watch.push(100, text);
    return watch.free_tokens();
  };
  EXPECT_EQ(free_tokens(limit_of(3, true), {}), 2U);
  EXPECT_EQ(free_tokens(limit_of(3, true), {"a", "b"}), 0U);
  EXPECT_EQ(free_tokens(limit_of(3, true), {"a", "b", "c"}), 0U) << "the next one is forced";
  // The marker may be the first token.
  EXPECT_EQ(free_tokens(limit_of(3), {"a", "b"}), 3U);
  EXPECT_EQ(free_tokens(limit_of(0), {"a"}), 0U);
  EXPECT_EQ(free_tokens(limit_of(5), {"<think>", "a", "b", "</think>", "c"}), 2U);
}

TEST(ThinkingWatch, CountsThinkingInSeveralPlacesTogether) {
  const std::vector<std::string> texts = {"<think>", "a", "b</think>", "x", "<think>", "c", "d", "e", "f"};
  EXPECT_EQ(forced_by(limit_of(3), texts), (Forced{{6, 7}, {7, 8}}));
}

TEST(ThinkingWatch, ForcesTheTokensOnceEvenIfTheyMakeAnotherText) {
  ThinkingWatch watch(limit_of(1, true));
  watch.push(100, "a");
  for (const TokenId id : {7, 8}) {
    EXPECT_EQ(watch.forced_next(), id);
    watch.push(id, "?");
  }
  EXPECT_EQ(watch.forced_next(), std::nullopt);
}

// gpt-oss's channels work this way: the answer's channel has to begin after the end of thinking.
TEST(ThinkingWatch, ForcesTheTextAfterTheMarker) {
  ThinkingWatch watch(limit_of(1, true));
  watch.push(100, "a");
  EXPECT_EQ(watch.forced_next(), 7);
  watch.push(7, "</think>");
  EXPECT_EQ(watch.forced_next(), 8);
  watch.push(8, "final");
  EXPECT_EQ(watch.forced_next(), std::nullopt);
}

// A constraint may have allowed a different token only, instead of the forced one.
TEST(ThinkingWatch, ForcesTheEndUntilItsMarkerAppears) {
  ThinkingWatch watch(limit_of(0, true));
  for (const auto& [token, text] : {std::pair<TokenId, const char*>{100, "x"}, {7, "\n"}, {100, "y"}})
    watch.push(token, text);
  EXPECT_EQ(watch.forced_next(), 7);
  watch.push(7, "\n");
  EXPECT_EQ(watch.forced_next(), 8);
  watch.push(100, "</think>");
  EXPECT_EQ(watch.forced_next(), std::nullopt);
}

}  // namespace
}  // namespace tp::test
