// Tiny targets with trained drafters, and results of the drafters' own code.
#pragma once

#include "tests/reference/expected_rows.h"
#include "tp/token_id.h"

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tp::reference {

// The drafts after a context. It consists of the first tokens of the prompt and the greedy ids, and of
// `next`, the target's choice after them.
struct ExpectedDraft {
  std::size_t context = 0;
  TokenId next = 0;
  std::vector<TokenId> ids;        // ids in the target's vocabulary
  ExpectedRows rows;               // [ids, rows of the drafter's LM head]
  std::vector<double> confidence;  // DSpark: [ids], before the sigmoid
};

struct DraftRound {
  std::size_t context = 0;
  std::vector<TokenId> drafted;
  std::size_t accepted = 0;
};

struct DrafterFixture {
  std::string name;
  std::filesystem::path target;  // folders with config.json and model.safetensors
  std::filesystem::path draft;
  std::vector<TokenId> prompt;
  std::vector<TokenId> greedy;  // the target's own continuation
  std::size_t vocab = 0;
  std::size_t draft_vocab = 0;
  std::vector<std::size_t> places;              // places of the streams that the drafter reads
  std::map<std::size_t, ExpectedRows> streams;  // streams of the prompt and the greedy ids, by place
  ExpectedRows prefill;                         // EAGLE: logits at each position of the prompt
  std::vector<ExpectedDraft> drafts;            // chains or blocks
  std::vector<DraftRound> rounds;               // rounds of a greedy run

  // Returns the first `size` tokens of the prompt and the greedy ids.
  std::vector<TokenId> text(std::size_t size) const;
};

// The fixtures of tests/data/seeded/drafters.
std::vector<DrafterFixture> drafter_fixtures();
DrafterFixture drafter_fixture(const std::string& name);

}  // namespace tp::reference
