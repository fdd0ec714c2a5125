#include "runtime/scheduling/token_bans.h"

#include <gtest/gtest.h>

namespace tp {
namespace {

using Ids = std::vector<TokenId>;

Ids after(const TokenBans& bans, const Ids& text, std::size_t prompt) { return bans.after(text, prompt); }

TEST(TokenBans, KeepBackEndsUntilTheTextIsLongEnough) {
  const TokenBans bans{.ends = {8, 9}, .min_tokens = 1, .model_ends = {9}, .min_before_model_ends = 2};
  EXPECT_EQ(after(bans, {1, 2}, 2), (Ids{8, 9}));
  EXPECT_EQ(after(bans, {1, 2, 3}, 2), Ids{9});
  EXPECT_EQ(after(bans, {1, 2, 3, 4}, 2), Ids());
}

TEST(TokenBans, CompleteNoBadWordOfGeneratedTokens) {
  const TokenBans bans{.words = {{5}, {1, 2, 3}}};
  EXPECT_EQ(after(bans, {1, 2}, 2), Ids{5});
  EXPECT_EQ(after(bans, {7, 1, 2}, 1), (Ids{3, 5}));
}

// Expected values were computed by hand from NoRepeatNGramLogitsProcessor, which counts the prompt's
// sequences, too.
TEST(TokenBans, LetNoSequenceComeTwice) {
  const auto banned = [](std::size_t size, const Ids& text) {
    return after({.no_repeat_ngram = size}, text, 1);
  };
  EXPECT_EQ(banned(0, {1, 2, 1}), Ids());
  EXPECT_EQ(banned(1, {1, 2, 1}), (Ids{1, 2}));
  EXPECT_EQ(banned(2, {1, 2, 1}), Ids{2});
  EXPECT_EQ(banned(2, {1, 2, 1, 3, 1}), (Ids{2, 3}));
  EXPECT_EQ(banned(2, {1, 3, 1, 2, 1, 3, 1}), (Ids{2, 3})) << "ascending, each once";
  EXPECT_EQ(banned(2, {4, 4}), Ids{4});
  EXPECT_EQ(banned(3, {1, 2, 3, 1, 2}), Ids{3});
  EXPECT_EQ(banned(3, {1, 2, 3, 2, 1}), Ids());
  EXPECT_EQ(banned(3, {1}), Ids());
  EXPECT_EQ(banned(3, {1, 2}), Ids());
}

TEST(TokenBans, ComeFromTheModelsFiles) {
  GenerationDefaults defaults{.bad_words = {{6}, {9}}, .suppressed = {9, 4}, .suppressed_first = {3}};
  defaults.no_repeat_ngram = 2;
  defaults.min_length = 5;
  TokenBans bans{.ends = {9}, .model_ends = {9}};
  add_defaults(defaults, 3, 100, false, bans);
  // A bad word that is the end token is ignored, but a suppressed end token is banned.
  EXPECT_EQ(bans.words, (std::vector<Ids>{{6}, {9}, {4}}));
  EXPECT_EQ(bans.min_before_model_ends, 2U);
  EXPECT_EQ(bans.no_repeat_ngram, 2U);
  EXPECT_EQ(after(bans, {1, 2, 7}, 3), (Ids{3, 4, 6, 9}));
  EXPECT_EQ(after(bans, {1, 2, 7, 8}, 3), (Ids{4, 6, 9}));
}

TEST(TokenBans, AtTheBeginningFollowAForcedToken) {
  TokenBans bans;
  add_defaults({.forced_first = 7, .suppressed_first = {3}}, 1, 100, false, bans);
  EXPECT_EQ(after(bans, {1}, 1), Ids());
  EXPECT_EQ(after(bans, {1, 7}, 1), Ids{3});
}

TEST(TokenBans, LeaveAConstraintItsWayToTheEnd) {
  GenerationDefaults defaults{.suppressed = {4}, .suppressed_first = {3}, .no_repeat_ngram = 1};
  defaults.min_new_tokens = 50;
  TokenBans bans;
  add_defaults(defaults, 1, 100, true, bans);
  EXPECT_EQ(after(bans, {1, 1}, 1), Ids{4});
  // If the minimum exceeds the maximum, the maximum replaces it.
  TokenBans shorter;
  add_defaults(defaults, 1, 10, false, shorter);
  EXPECT_EQ(shorter.min_before_model_ends, 10U);
}

}  // namespace
}  // namespace tp
