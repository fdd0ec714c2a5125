// The index of stored prompts finds the longest usable prefix.
#include "runtime/store/run_index.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tp {
namespace {

constexpr std::size_t kBlock = 2;  // tokens
constexpr std::size_t kRun = 4;    // blocks

std::vector<TokenId> make_text(std::size_t tokens, TokenId last = 0) {
  std::vector<TokenId> text;
  for (std::size_t i = 0; i < tokens; ++i) text.push_back(static_cast<TokenId>(i));
  if (!text.empty()) text.back() += last;
  return text;
}

class StoredIndex : public testing::Test {
 protected:
  std::vector<PromptId> ids_of(const std::vector<TokenId>& text) const {
    return ids_after(salt_, text, kBlock);
  }
  // Adds the text's runs, and states after these numbers of blocks.
  void add(const std::vector<TokenId>& text, const std::vector<std::size_t>& states = {}) {
    const std::vector<PromptId> ids = ids_of(text);
    for (std::size_t begin = 0; begin < ids.size(); begin += kRun)
      index_.add(header_of(text, begin, std::min(begin + kRun, ids.size()), StoredKind::keys_and_values));
    for (const std::size_t end : states) index_.add(header_of(text, end - 1, end, StoredKind::states));
  }
  RunHeader header_of(const std::vector<TokenId>& text, std::size_t begin, std::size_t end,
                      StoredKind kind) const {
    const std::vector<PromptId> ids = ids_of(text);
    return {.kind = kind,
            .before = begin == 0 ? salt_ : ids[begin - 1],
            .id = ids[end - 1],
            .tokens = {text.begin() + static_cast<long>(begin * kBlock),
                       text.begin() + static_cast<long>(end * kBlock)}};
  }
  // Returns the number of blocks of the longest prefix, and the number of blocks of each of its runs.
  std::pair<std::size_t, std::vector<std::size_t>> find(const std::vector<TokenId>& text, std::size_t min = 0,
                                                        std::optional<std::size_t> reach = {},
                                                        bool with_state = false) const {
    const auto found = find_prefix(index_, ids_of(text), min, reach, kBlock, with_state);
    std::vector<std::size_t> runs;
    if (!found) return {0, runs};
    for (const StoredPrefix::Run& run : found->runs) runs.push_back(run.blocks);
    return {found->blocks, runs};
  }

  using Found = std::pair<std::size_t, std::vector<std::size_t>>;

  PromptId salt_ = id_of_salt({}, "");
  RunIndex index_{kBlock};
};

TEST_F(StoredIndex, FindsTheLongestPrefixAlsoWithinARun) {
  add(make_text(22));
  EXPECT_EQ(find(make_text(40)), Found(11, {4, 4, 3}));
  EXPECT_EQ(find(make_text(22, 1)), Found(10, {4, 4, 2}));
  EXPECT_EQ(find(make_text(17)), Found(8, {4, 4}));
  EXPECT_EQ(find(make_text(3)), Found(1, {1}));
  EXPECT_EQ(find(make_text(40), 11), Found(0, {})) << "memory has as much";
  EXPECT_EQ(find(make_text(2, 1)), Found(0, {}));
}

TEST_F(StoredIndex, LooksForNoMoreThanTheWindow) {
  const std::vector<TokenId> text = make_text(24);
  index_.add(header_of(text, 8, 12, StoredKind::keys_and_values));
  EXPECT_EQ(find(text), Found(0, {}));
  EXPECT_EQ(find(text, 0, 8), Found(12, {4}));
  EXPECT_EQ(find(text, 0, 9), Found(12, {4}));
  EXPECT_EQ(find(text, 0, 10), Found(0, {})) << "the next token sees position 15";
}

TEST_F(StoredIndex, NeedsAStateAtTheEnd) {
  add(make_text(22), {3, 8});
  EXPECT_EQ(find(make_text(40), 0, {}, true), Found(8, {4, 4}));
  EXPECT_EQ(find(make_text(15), 0, {}, true), Found(3, {3}));
  index_.remove_state(ids_of(make_text(40))[7]);
  EXPECT_EQ(find(make_text(40), 0, {}, true), Found(3, {3}));
}

TEST_F(StoredIndex, ReplacesShorterRunsAndForgetsRemovedRuns) {
  add(make_text(20));
  add(make_text(24));
  const std::vector<PromptId> ids = ids_of(make_text(24));
  EXPECT_FALSE(index_.has_run(ids[9]));
  EXPECT_TRUE(index_.has_run(ids[11]));
  index_.remove_run(ids[7]);
  EXPECT_EQ(find(make_text(40)), Found(4, {4}));
}

TEST_F(StoredIndex, IgnoresIdsThatDoNotFollowFromTheTokens) {
  RunHeader header = header_of(make_text(8), 0, 4, StoredKind::keys_and_values);
  header.tokens[3] = 99;
  index_.add(header);
  header = header_of(make_text(8), 0, 4, StoredKind::keys_and_values);
  header.tokens.pop_back();
  index_.add(header);
  EXPECT_EQ(find(make_text(8)), Found(0, {}));
}

}  // namespace
}  // namespace tp
