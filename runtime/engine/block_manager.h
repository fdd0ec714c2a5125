// Which blocks of the KV cache hold which tokens: decisions only. The bytes are model/memory/kv_cache's, on
// every rank; rank 0 decides for all, and the others are told the block tables.
#pragma once

#include "runtime/engine/free_block_list.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tp {

using SequenceId = std::uint64_t;

// What the cache already holds of a prompt.
struct PrefixMatch {
  std::vector<BlockId> blocks;  // full blocks, from the prompt's beginning on
  std::size_t tokens = 0;       // in them
  std::size_t free_blocks =
      0;  // how many of them no sequence owns at present: using them lowers free_blocks()
};

// Mixes the tokens of one full block with an identification of all that precedes it.
using BlockHash = std::uint64_t (*)(std::uint64_t prefix, std::span<const TokenId> tokens);
std::uint64_t hash_of_block(std::uint64_t prefix, std::span<const TokenId> tokens);

// Hands out blocks of `block_size` tokens to sequences, and lets sequences that begin alike share them.
//
// The life of a sequence: begin_sequence finds the blocks that already hold its beginning; before a step,
// try_reserve provides blocks for the tokens that the step computes; after it, commit says that they are
// computed; end_sequence gives all back. A preempted sequence ends and begins again, with its generated
// tokens in its prompt.
//
// Sharing. Only full blocks with computed contents are ever shared. Keys and values are written at positions
// from the sequence's computed count on, which are in blocks that are not full yet, or not computed, and
// therefore have one owner. So a shared block is never written, and nothing is ever copied on a write.
// ContentId are identified by a number that is never used again, given to them when they are committed; a
// block is found by (number of the preceding contents, own tokens). Hashes only speed that up: tokens are
// compared, and a collision costs time, nothing else.
//
// Reuse. A block whose last owner ends keeps its contents until it is needed for something else; the least
// recently used goes first, of one sequence the last block first. If two sequences compute the same tokens at
// the same time, each keeps its own blocks, and only the first one's are found by others. Without calls of
// commit nothing is shared.
//
// Misuse (an unknown sequence, counts that do not fit) throws std::logic_error.
class BlockManager {
 public:
  // Throws ConfigError if a size is 0 or there are more blocks than BlockId can count. `hash` is for tests.
  BlockManager(std::size_t num_blocks, std::size_t block_size, BlockHash hash = hash_of_block);

  std::size_t block_size() const { return block_size_; }
  std::size_t num_blocks() const { return blocks_.size(); }
  // Blocks that hold so many tokens.
  std::size_t blocks_for(std::size_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  // Blocks that no sequence owns, those with known contents included.
  std::size_t free_blocks() const { return free_.size(); }
  // Those among the free blocks that a later prompt may find.
  std::size_t cached_blocks() const;

  // What begin_sequence would find. It never covers all tokens: at least one must be computed for there to be
  // logits.
  PrefixMatch match_prefix(std::span<const TokenId> tokens) const;

  // A new sequence owns the blocks that match; returns the number of tokens in them. It always succeeds.
  std::size_t begin_sequence(SequenceId id, std::span<const TokenId> tokens);

  // Lets the sequence's table grow to hold `total_tokens`; the ids of its additional blocks are appended to
  // `new_blocks`. If there are not enough free blocks, returns false and nothing has changed.
  bool try_reserve(SequenceId id, std::size_t total_tokens, std::vector<BlockId>& new_blocks);

  // The first `computed_tokens` of the sequence's `tokens` are now in the cache (a count that never falls),
  // and their full blocks can be found by others. The tokens must be those of earlier calls, with more at the
  // end.
  void commit(SequenceId id, std::span<const TokenId> tokens, std::size_t computed_tokens);

  void end_sequence(SequenceId id);

  // Block i holds the tokens [i * block_size, (i + 1) * block_size). Valid until the next call for this
  // sequence.
  std::span<const BlockId> table(SequenceId id) const { return sequence(id).table; }

  // Throws std::logic_error naming the first invariant that does not hold. Takes time in proportion to the
  // cache.
  void check_invariants() const;

 private:
  using ContentId = std::uint64_t;
  static constexpr ContentId kNothing =
      0;  // before a sequence's first block; and what an unknown block holds

  struct Block {
    std::int32_t owners = 0;
    ContentId contents = kNothing;
    ContentId preceding = kNothing;  // the contents of the block before it
    std::uint64_t hash = 0;          // its key in index_, if its contents are known
  };
  struct Sequence {
    std::vector<BlockId> table;
    std::size_t computed_tokens = 0;
    ContentId last_contents = kNothing;  // of the last full and computed block
  };

  Block& block(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  const Block& block(BlockId id) const { return blocks_[static_cast<std::size_t>(id)]; }
  Sequence& sequence(SequenceId id);
  const Sequence& sequence(SequenceId id) const;
  std::span<TokenId> tokens_of(BlockId id);
  std::span<const TokenId> tokens_of(BlockId id) const;

  // The block that holds `tokens` after `preceding`, or kNone.
  static constexpr BlockId kNone = -1;
  BlockId find(ContentId preceding, std::span<const TokenId> tokens) const;
  void acquire(BlockId id);
  void release(BlockId id);
  BlockId take_free();
  void publish(BlockId id, ContentId preceding, std::span<const TokenId> tokens);
  void evict(BlockId id);

  void check_owners() const;
  void check_index() const;
  void check_writable_blocks() const;

  std::size_t block_size_;
  BlockHash hash_;
  std::vector<Block> blocks_;
  std::vector<TokenId> tokens_;  // [num_blocks, block_size], of blocks with known contents
  FreeBlockList free_;           // unknown contents first, then from the least to the most recently used
  std::unordered_multimap<std::uint64_t, BlockId> index_;  // blocks with known contents by hash
  std::unordered_map<SequenceId, Sequence> sequences_;
  ContentId next_contents_ = kNothing + 1;
};

}  // namespace tp
