// Which slots of the state cache are free, and what they hold.
#pragma once

#include "runtime/cache/content_tree.h"
#include "runtime/cache/free_block_list.h"

#include <cstddef>
#include <vector>

namespace tp {

// A slot of the state cache.
using StateSlot = BlockId;
// None.
constexpr StateSlot kNoSlot = -1;

// Slots for each sequence that may run: its own one, and others for snapshots, which half of all may await
// their step for.
constexpr std::size_t kStatesPerSequence = 4;

// Bookkeeping of slots that recurrent layers keep states in, on rank 0. A free slot keeps its contents, as a
// snapshot that later sequences can begin with, until it is taken: the least recently used one first.
class StateSlots {
 public:
  // Without slots for a model without recurrent layers.
  explicit StateSlots(std::size_t slots) : free_(slots), slots_(slots) {}

  bool exist() const { return !slots_.empty(); }
  std::size_t size() const { return slots_.size(); }
  std::size_t free() const { return free_.size(); }
  bool is_free(StateSlot slot) const { return free_.contains(slot); }
  ContentId contents(StateSlot slot) const { return at(slot).contents; }

  struct Taken {
    StateSlot slot = kNoSlot;
    ContentId evicted = kNoContents;  // what it held
  };
  // Takes a free slot. Throws std::logic_error if there is none.
  Taken take();
  // Gives back a slot that holds nothing.
  void release(StateSlot slot);
  // Gives back a slot that holds the state behind these contents; `replaceable`: only until its sequence has
  // a later one, or somebody else has used it.
  void keep(StateSlot slot, ContentId contents, bool replaceable);
  // Counts a snapshot as used.
  void touch(StateSlot slot);
  bool is_replaceable(StateSlot slot) const { return at(slot).replaceable; }
  // Makes a snapshot a slot that holds nothing.
  void drop(StateSlot slot);
  // Slots that hold snapshots.
  std::size_t snapshots() const { return snapshots_; }

 private:
  struct Slot {
    ContentId contents = kNoContents;
    bool replaceable = false;
  };

  Slot& at(StateSlot slot) { return slots_[static_cast<std::size_t>(slot)]; }
  const Slot& at(StateSlot slot) const { return slots_[static_cast<std::size_t>(slot)]; }

  FreeBlockList free_;  // from the least to the most recently used
  std::vector<Slot> slots_;
  std::size_t snapshots_ = 0;
};

}  // namespace tp
