// A source that drafts the fake worker's tokens, some of them wrong.
#pragma once

#include "tests/reference/random.h"
#include "tests/runtime/scheduling/fake_worker.h"
#include "tp/draft_source.h"

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {

// Drafts the fake worker's tokens. On average, one in `wrong` draft tokens is wrong (0: none).
class NearlyRightSource : public DraftSource {
 public:
  explicit NearlyRightSource(std::size_t wrong, std::uint64_t seed = 1) : wrong_(wrong), random_(seed) {}

  std::vector<Draft> draft(std::span<const DraftQuery> queries) override {
    std::vector<Draft> drafts;
    for (const DraftQuery& query : queries) {
      EXPECT_GT(query.max_tokens, 0U);
      EXPECT_GT(query.tokens.size(), query.prompt_tokens);
      Draft& draft = drafts.emplace_back();
      std::vector<TokenId> text(query.tokens.begin(), query.tokens.end());
      for (std::size_t i = 0; i < query.max_tokens; ++i) {
        const bool errs = wrong_ > 0 && random_.integer(0, wrong_ - 1) == 0;
        draft.tokens.push_back((next_token(text) + (errs ? 1 : 0)) % 97);
        draft.chances.push_back(1.0 / static_cast<double>(2 + i));
        text.push_back(draft.tokens.back());
      }
    }
    return drafts;
  }

  void end(std::uint64_t /*sequence*/) override {}

 private:
  std::size_t wrong_;
  reference::Random random_;
};

}  // namespace tp::test
