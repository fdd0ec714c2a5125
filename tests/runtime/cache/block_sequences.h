// Sequences of tokens for the tests of the block manager.
#pragma once

#include "runtime/cache/block_manager.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {

using Tokens = std::vector<TokenId>;
using Blocks = std::vector<BlockId>;

// count tokens: first, first + 1, ...
inline Tokens tokens_from(TokenId first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline Blocks table_of(const BlockManager& manager, SequenceId id) {
  const auto table = manager.table(id);
  return {table.begin(), table.end()};
}

// Begins a sequence and computes all its tokens. Returns how many were cached.
inline std::size_t run(BlockManager& manager, SequenceId id, const Tokens& tokens, const char* salt = "") {
  const std::size_t cached = manager.begin_sequence(id, tokens, salt);
  Blocks new_blocks;
  EXPECT_TRUE(manager.try_reserve(id, tokens.size(), new_blocks));
  manager.commit(id, tokens, tokens.size());
  manager.check_invariants();
  return cached;
}

}  // namespace tp::test
