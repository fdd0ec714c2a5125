// What the blocks of the KV cache can hold, and which blocks hold it.
#pragma once

#include "runtime/engine/free_block_list.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tp {

// Identifies the tokens of a full block together with all tokens before them. Never used again.
using ContentId = std::uint64_t;
// Before a sequence's first block; and what an unknown block holds.
constexpr ContentId kNoContents = 0;
// No block: of a table, an entry whose block was given back.
constexpr BlockId kNoBlock = -1;

// Mixes the tokens of one full block with an identification of all that precedes it.
using BlockHash = std::uint64_t (*)(std::uint64_t prefix, std::span<const TokenId> tokens);
std::uint64_t hash_of_block(std::uint64_t prefix, std::span<const TokenId> tokens);

// Contents are found by (contents before them, own tokens). Hashes only speed that up: tokens are compared,
// and a collision costs time, nothing else.
//
// Contents are remembered as long as somebody uses them: a block that holds them, a sequence that ends with
// them, or contents that follow them. So the way to what a windowed layer still holds of a long text is known
// though no block holds the text's beginning any more.
class ContentTree {
 public:
  // `groups`: of layers with blocks of their own, each of which can hold the contents once.
  ContentTree(std::size_t groups, BlockHash hash) : groups_(groups), hash_(hash) {}

  // These tokens after `preceding`, or kNoContents if they are unknown.
  ContentId find(ContentId preceding, std::span<const TokenId> tokens) const;
  // The same, which are known from then on; the caller uses them.
  ContentId use(ContentId preceding, std::span<const TokenId> tokens);
  // One more user, or one less; of the last one, contents are dropped. kNoContents is always there.
  void use(ContentId contents);
  void drop(ContentId contents);

  // The group's block that holds them, or kNoBlock.
  BlockId holder(ContentId contents, std::size_t group) const { return at(contents).holders[group]; }
  // The block holds them from now on; it uses them. There must be no other.
  void hold(ContentId contents, std::size_t group, BlockId block);
  // It holds them no more.
  void evict(ContentId contents, std::size_t group);

  // How many there are.
  std::size_t size() const { return contents_.size(); }

  // Throws std::logic_error unless blocks, following contents and `others`, which may name contents several
  // times, are all users that there are.
  void check_invariants(std::span<const ContentId> others) const;

 private:
  struct Contents {
    ContentId preceding = kNoContents;
    std::uint64_t hash = 0;  // its key in index_
    std::size_t users = 0;
    std::vector<TokenId> tokens;   // [block_size]
    std::vector<BlockId> holders;  // [groups]
  };

  Contents& at(ContentId contents) { return contents_.at(contents); }
  const Contents& at(ContentId contents) const { return contents_.at(contents); }

  std::size_t groups_;
  BlockHash hash_;
  std::unordered_map<ContentId, Contents> contents_;
  std::unordered_multimap<std::uint64_t, ContentId> index_;  // by hash
  ContentId next_ = kNoContents + 1;
};

}  // namespace tp
