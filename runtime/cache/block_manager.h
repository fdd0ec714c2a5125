// Allocates the blocks of the paged KV cache and shares common prefixes. Bookkeeping only, on rank 0: each
// rank stores the data in model/memory/kv_cache, and commands send the block tables to the ranks.
#pragma once

#include "parallel/shard/shard.h"
#include "runtime/cache/cache_shape.h"
#include "runtime/cache/content_tree.h"
#include "runtime/cache/free_block_list.h"
#include "runtime/cache/snapshots.h"
#include "runtime/cache/state_slots.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tp {

using SequenceId = std::uint64_t;

// The cached prefix of a prompt.
struct PrefixMatch {
  // [groups][full blocks], from the start of the prompt; kNoBlock before a group's window.
  std::vector<std::vector<BlockId>> tables;
  std::size_t tokens = 0;            // number of tokens in these blocks
  std::size_t free_blocks = 0;       // matched blocks without an owner: acquiring them lowers free_blocks()
  ContentId contents = kNoContents;  // contents of the last block; without blocks, contents of the salt
  StateSlot state = kNoSlot;         // snapshot after these tokens, if the model has recurrent layers
};

// A slot for a copy of a sequence's state after its first `position` tokens.
struct StateSave {
  std::uint64_t position = 0;
  StateSlot slot = kNoSlot;
};

// Identifies a loan.
using LoanId = std::uint64_t;

// Consecutive blocks of a text, on loan to somebody who reads or fills them outside of steps.
struct BlockLoan {
  std::vector<ContentId> contents;          // [blocks]
  std::vector<std::vector<BlockId>> held;   // [groups][blocks]: published blocks, or kNoBlock
  std::vector<std::vector<BlockId>> blank;  // [groups][blocks]: blocks to fill, or kNoBlock
  StateSlot state = kNoSlot;                // slot to fill with the state after the blocks
};

// Allocates blocks of `block_size` tokens to sequences, and lets sequences with a common prefix share them.
//
// Groups. A block stores its tokens' keys and values for the layers of one group, which share a block table.
// Every block has room for any group's layers, so any free block can serve any group. Layers with a sliding
// window are in groups of their own, whose blocks are released when no later token attends to them.
//
// Life cycle of a sequence: begin_sequence acquires the blocks of its cached prefix; before a step,
// try_reserve allocates blocks for the tokens that the step computes; after it, commit marks these tokens as
// computed and releases blocks that have left their window; end_sequence releases all blocks. A preempted
// sequence ends and begins again, with its generated tokens appended to its prompt.
//
// Sharing. Only full, computed blocks are shared. Keys and values are written at positions from the
// sequence's computed count on. Their blocks are not full or not computed yet, and therefore have a single
// owner. So a shared block is never written to, and copy-on-write is not needed. A prefix is found if all of
// its blocks are cached. Windowed groups need only the blocks that the next token attends to.
//
// Reuse. A block whose last owner ends keeps its contents until it is evicted: the least recently used block
// first, and within an ended sequence the last block first. If two sequences compute the same tokens at the
// same time, each keeps its own blocks, and only the first sequence's blocks are published. Without calls of
// commit, nothing is shared, and nothing is released before a sequence ends.
//
// States. If layers are recurrent, each sequence also has a slot of the state cache. Further slots hold
// snapshots of states at block boundaries: take_saves takes slots for them, and commit publishes them. A
// prefix is found up to a position with a snapshot, which the caller copies to the sequence's slot before the
// sequence's first step.
//
// Loans. Blocks on loan have an owner, so they are neither evicted nor given to a sequence. lend() lends
// published blocks, whose contents never change. lend_blank() lends blocks for a text's beginning that is
// about to be filled, together with the blocks of this beginning that are already cached. publish_loan() lets
// sequences find the filled blocks.
//
// Owners. If ranks keep one copy of the cache, runs of blocks have different owners among the ranks. Splits
// of a sequence, of BlockOwners::together blocks, get blocks of different owners in turn, as far as free
// blocks allow. The first block comes from the owner with the most free blocks.
//
// Misuse (an unknown sequence, counts that do not fit) throws std::logic_error.
class BlockManager {
 public:
  // `windows`: one per group. Throws ConfigError if a size is 0 or the number of blocks exceeds BlockId.
  // `states`: slots of the state cache, at least kStatesPerSequence for each sequence, or none. `hash` is for
  // tests.
  BlockManager(std::size_t num_blocks, std::size_t block_size, CacheWindows windows = {std::nullopt},
               BlockHash hash = hash_of_block, std::size_t states = 0, BlockOwners owners = {});

  std::size_t block_size() const { return block_size_; }
  std::size_t num_blocks() const { return blocks_.size(); }
  std::size_t groups() const { return windows_.size(); }
  // Index of the first of a group's blocks that tokens at or after `position` attend to.
  std::size_t first_block(std::size_t group, std::size_t position) const {
    return first_seen(windows_[group], position) / block_size_;
  }
  // Blocks per group for this many tokens.
  std::size_t blocks_for(std::size_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  // Blocks without an owner, including cached ones.
  std::size_t free_blocks() const { return free_.size(); }

  // Returns what begin_sequence would find. Never covers all tokens: at least one must be computed to get
  // logits.
  PrefixMatch match_prefix(std::span<const TokenId> tokens, std::string_view salt = {}) const;

  // Starts a sequence, which acquires the blocks of its cached prefix, and returns the number of tokens in
  // these blocks. Only sequences with equal salts share blocks. A prefix of fewer than `min` tokens is not
  // used. Allocates no block, so it never fails for lack of blocks.
  std::size_t begin_sequence(SequenceId id, std::span<const TokenId> tokens, std::string_view salt = {},
                             std::size_t min = 0);

  // Starts a sequence that has no cached prefix and publishes nothing.
  void begin_unshared_sequence(SequenceId id);

  // Extends the sequence's tables to `total_tokens` tokens, and appends the ids of the additional blocks to
  // `new_blocks`, group by group. If there are not enough free blocks, returns false and changes nothing.
  bool try_reserve(SequenceId id, std::size_t total_tokens, std::vector<BlockId>& new_blocks);

  // Marks the first `computed_tokens` of the sequence's `tokens` as computed (a count that never decreases)
  // and publishes their full blocks, unless the sequence is unshared. Releases blocks that no token from
  // `computed_tokens` on attends to. `tokens` must begin with the tokens of earlier calls.
  void commit(SequenceId id, std::span<const TokenId> tokens, std::size_t computed_tokens);

  // Whether the model has recurrent layers.
  bool keeps_states() const { return states_.exist(); }
  // The sequence's slot, and the snapshot that it begins with; kNoSlot: it begins with zeros.
  StateSlot state(SequenceId id) const { return sequence(id).state; }
  StateSlot first_state(SequenceId id) const { return sequence(id).first_state; }
  // Takes a second slot for the sequence, for tokens that may be rejected: they are computed on a copy of its
  // state. resolve_trial_state keeps either the second slot or the sequence's own slot, and releases the
  // other.
  StateSlot take_trial_state(SequenceId id);
  void resolve_trial_state(SequenceId id, bool keep);
  // Takes slots for copies of the sequence's state at these positions, which are block boundaries that it is
  // about to compute. Returns fewer if too many slots already await their steps, and none for an unshared
  // sequence.
  std::vector<StateSave> take_saves(SequenceId id, const SnapshotPositions& positions);
  // Numbers of all slots, and of slots that hold snapshots.
  std::size_t states() const { return states_.size(); }
  std::size_t snapshots() const { return states_.snapshots(); }
  // Whether a copy at this position was requested and is not published yet.
  bool awaits_save(SequenceId id, std::size_t position) const;

  // Upper bound of the number of blocks that the sequence still needs until its first `tokens` tokens are
  // computed in chunks of at most `chunk`.
  std::size_t missing_blocks(SequenceId id, std::size_t tokens, std::size_t chunk) const;

  void end_sequence(SequenceId id);

  // Gives everything that a sequence owns to a sequence that has not begun.
  void hand_over(SequenceId from, SequenceId to);

  // The contents of the longest cached prefix of these tokens, block by block.
  std::vector<ContentId> known_contents(std::span<const TokenId> tokens, std::string_view salt) const;
  // Whether a block, a sequence or later contents still use these contents.
  bool knows(ContentId contents) const { return contents_.knows(contents); }
  // The contents of a sequence's published blocks [blocks.begin, blocks.end).
  std::vector<ContentId> contents_of(SequenceId id, Range blocks) const;
  // The slot of the snapshot after these contents, or kNoSlot.
  StateSlot snapshot_after(ContentId contents) const;
  // Whether the snapshot after these contents lives only until its sequence has a later one.
  bool is_replaceable(ContentId contents) const;
  // Lends the blocks with these contents, as far as the cache still has them.
  LoanId lend(std::vector<ContentId> contents);
  // Lends the blocks that a sequence needs after the text's first `blocks` blocks, and a slot for a state
  // unless there is a snapshot. Returns nothing and changes nothing if more than `max` free blocks would be
  // needed, or no slot is free.
  std::optional<LoanId> lend_blank(std::span<const TokenId> tokens, std::string_view salt, std::size_t blocks,
                                   std::size_t max);
  const BlockLoan& loan(LoanId id) const { return loans_.at(id); }
  // After blank blocks have been filled: they become held blocks.
  void publish_loan(LoanId id);
  void end_loan(LoanId id);

  // Entry i is the block of the tokens [i * block_size, (i + 1) * block_size) for the group's layers, or
  // kNoBlock if it has left the window. The tables of all groups have the same length. Valid until the next
  // call for this sequence.
  std::span<const BlockId> table(SequenceId id, std::size_t group = 0) const {
    return sequence(id).tables[group];
  }

  // Throws std::logic_error naming the first violated invariant. Takes time proportional to the cache.
  void check_invariants() const;

 private:
  struct Block {
    std::int32_t owners = 0;
    ContentId contents = kNoContents;
    std::size_t group = 0;  // group whose layers the contents belong to
  };
  struct AwaitedSave : StateSave {
    bool replaceable = false;
  };
  struct Sequence {
    std::vector<std::vector<BlockId>> tables;  // [groups]
    bool shared = true;
    std::size_t computed_tokens = 0;
    ContentId last_contents = kNoContents;  // contents of the last full and computed block, or of the salt
    StateSlot state = kNoSlot;
    StateSlot first_state = kNoSlot;
    StateSlot trial_state = kNoSlot;
    std::vector<AwaitedSave> saves{};  // unpublished saves
    ContentId latest = kNoContents;    // contents of the snapshot that the next snapshot replaces

    std::size_t length() const { return tables.front().size(); }  // number of entries of each table
  };

  Block& block(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  const Block& block(BlockId id) const { return blocks_[static_cast<std::size_t>(id)]; }
  Sequence& sequence(SequenceId id);
  const Sequence& sequence(SequenceId id) const;

  std::vector<ContentId> longest_match(std::span<const TokenId> tokens, ContentId salt) const;
  void acquire(BlockId id);
  void release(BlockId id);
  BlockId take_free(std::size_t owner);
  // The owner of a table's next block. An owner without blank blocks gives way to one that has some.
  std::size_t next_owner(std::span<const BlockId> table) const;
  // Whether the owner has a free block without contents.
  bool has_blank(std::size_t owner) const {
    return free_.size(owner) > 0 && block(free_.front(owner)).contents == kNoContents;
  }
  void publish(BlockId id, ContentId contents, std::size_t group);
  void publish_full_blocks(Sequence& committed, std::span<const TokenId> tokens, std::size_t computed_tokens);
  StateSlot take_state();
  void publish_state(Sequence& committed, std::size_t position, ContentId contents);
  void drop_latest(Sequence& saving);
  void leave_windows(Sequence& committed, std::size_t computed_before);

  std::vector<ContentId> use_contents(std::span<const TokenId> tokens, std::string_view salt,
                                      std::size_t blocks);
  void publish_state_on_loan(BlockLoan& filled);

  void check_tables() const;
  void check_owners() const;
  void check_contents() const;
  void check_writable_blocks() const;
  void check_states() const;

  std::size_t block_size_;
  CacheWindows windows_;  // [groups]
  std::vector<Block> blocks_;
  // By owner: blocks without contents first, then from the least to the most recently used.
  FreeBlockList free_;
  std::size_t together_;  // BlockOwners::together
  StateSlots states_;
  std::size_t awaited_saves_ = 0;  // total of all sequences
  ContentTree contents_;           // holders of group groups() are slots of states
  std::unordered_map<SequenceId, Sequence> sequences_;
  std::unordered_map<LoanId, BlockLoan> loans_;
  LoanId next_loan_ = 1;
};

}  // namespace tp
