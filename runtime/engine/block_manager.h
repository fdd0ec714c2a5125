// Which blocks of the KV cache hold which tokens: decisions only. The bytes are model/memory/kv_cache's, on
// every rank; rank 0 decides for all, and the others are told the block tables.
#pragma once

#include "runtime/engine/cache_shape.h"
#include "runtime/engine/content_tree.h"
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
  // [groups][full blocks], from the prompt's beginning on; kNoBlock before a group's window.
  std::vector<std::vector<BlockId>> tables;
  std::size_t tokens = 0;  // in them
  // How many of them no sequence owns at present: using them lowers free_blocks().
  std::size_t free_blocks = 0;
  ContentId contents = kNoContents;  // of the last
};

// Hands out blocks of `block_size` tokens to sequences, and lets sequences that begin alike share them.
//
// Groups. A block holds its tokens for the layers of one group, those that share a table, and every group has
// the same number of layers: any free block serves any group. Layers with a sliding window are in other
// groups than the rest, and their blocks are given back when no token to come sees them.
//
// The life of a sequence: begin_sequence finds the blocks that already hold its beginning; before a step,
// try_reserve provides blocks for the tokens that the step computes; after it, commit says that they are
// computed, and gives back what has left its window; end_sequence gives all back. A preempted sequence ends
// and begins again, with its generated tokens in its prompt.
//
// Sharing. Only full blocks with computed contents are ever shared. Keys and values are written at positions
// from the sequence's computed count on, which are in blocks that are not full yet, or not computed, and
// therefore have one owner. So a shared block is never written, and nothing is ever copied on a write. A
// beginning is found if all of its blocks are there, of a windowed group those that its next token sees.
//
// Reuse. A block whose last owner ends keeps its contents until it is needed for something else; the least
// recently used goes first, of one sequence the last block first. If two sequences compute the same tokens at
// the same time, each keeps its own blocks, and only the first one's are found by others. Without calls of
// commit nothing is shared, nor given back before a sequence ends.
//
// Misuse (an unknown sequence, counts that do not fit) throws std::logic_error.
class BlockManager {
 public:
  // `windows`: of every group. Throws ConfigError if a size is 0 or there are more blocks than BlockId can
  // count. `hash` is for tests.
  BlockManager(std::size_t num_blocks, std::size_t block_size, CacheWindows windows = {std::nullopt},
               BlockHash hash = hash_of_block);

  std::size_t block_size() const { return block_size_; }
  std::size_t num_blocks() const { return blocks_.size(); }
  std::size_t groups() const { return windows_.size(); }
  // Blocks of one group that hold so many tokens.
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

  // Lets the sequence's tables grow to hold `total_tokens`; the ids of their additional blocks are appended
  // to `new_blocks`, group by group. If there are not enough free blocks, returns false and nothing has
  // changed.
  bool try_reserve(SequenceId id, std::size_t total_tokens, std::vector<BlockId>& new_blocks);

  // The first `computed_tokens` of the sequence's `tokens` are now in the cache (a count that never falls),
  // and their full blocks can be found by others. Blocks that no token from `computed_tokens` on sees are
  // given back. The tokens must be those of earlier calls, with more at the end.
  void commit(SequenceId id, std::span<const TokenId> tokens, std::size_t computed_tokens);

  void end_sequence(SequenceId id);

  // Entry i is the block that holds the tokens [i * block_size, (i + 1) * block_size) for the group's layers,
  // or kNoBlock if it has left the window. Tables of all groups have the same length. Valid until the next
  // call for this sequence.
  std::span<const BlockId> table(SequenceId id, std::size_t group = 0) const {
    return sequence(id).tables[group];
  }

  // Throws std::logic_error naming the first invariant that does not hold. Takes time in proportion to the
  // cache.
  void check_invariants() const;

 private:
  struct Block {
    std::int32_t owners = 0;
    ContentId contents = kNoContents;
    std::size_t group = 0;  // whose layers' contents they are
  };
  struct Sequence {
    std::vector<std::vector<BlockId>> tables;  // [groups]
    std::size_t computed_tokens = 0;
    ContentId last_contents = kNoContents;  // of the last full and computed block

    std::size_t length() const { return tables.front().size(); }  // of every table
  };

  Block& block(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  const Block& block(BlockId id) const { return blocks_[static_cast<std::size_t>(id)]; }
  Sequence& sequence(SequenceId id);
  const Sequence& sequence(SequenceId id) const;

  // The first of a group's blocks that a token at `position`, or behind it, sees.
  std::size_t first_block(std::size_t group, std::size_t position) const {
    return first_seen(windows_[group], position) / block_size_;
  }
  std::vector<ContentId> longest_match(std::span<const TokenId> tokens) const;
  void acquire(BlockId id);
  void release(BlockId id);
  BlockId take_free();
  void publish(BlockId id, ContentId contents, std::size_t group);
  void leave_windows(Sequence& committed, std::size_t computed_before);

  void check_tables() const;
  void check_owners() const;
  void check_contents() const;
  void check_writable_blocks() const;

  std::size_t block_size_;
  CacheWindows windows_;  // [groups]
  std::vector<Block> blocks_;
  FreeBlockList free_;  // unknown contents first, then from the least to the most recently used
  ContentTree contents_;
  std::unordered_map<SequenceId, Sequence> sequences_;
};

}  // namespace tp
