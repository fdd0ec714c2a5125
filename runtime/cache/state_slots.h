// Tracks which slots of the state cache are free, and what they hold.
#pragma once

#include "runtime/cache/content_tree.h"
#include "runtime/cache/free_block_list.h"

#include <cstddef>
#include <vector>

namespace tp {

// A slot of the state cache.
using StateSlot = BlockId;
// No slot.
constexpr StateSlot kNoSlot = -1;

// Slots per sequence that may run: its own slot, and slots for snapshots. At most half of all slots may await
// a step that copies a state to them.
constexpr std::size_t kStatesPerSequence = 4;

// Bookkeeping, on rank 0, of the slots in which recurrent layers keep states. A free slot may hold a
// snapshot, with which later sequences can begin, until it is taken. The least recently used slot is taken
// first.
class StateSlots {
 public:
  // `slots`: 0 if the model has no recurrent layers.
  explicit StateSlots(std::size_t slots) : free_(slots), slots_(slots) {}

  bool exist() const { return !slots_.empty(); }
  std::size_t size() const { return slots_.size(); }
  std::size_t free() const { return free_.size(); }
  bool is_free(StateSlot slot) const { return free_.contains(slot); }
  ContentId contents(StateSlot slot) const { return at(slot).contents; }

  struct Taken {
    StateSlot slot = kNoSlot;
    ContentId evicted = kNoContents;  // contents that the slot held
  };
  // Takes a free slot. Throws std::logic_error if there is none.
  Taken take();
  // Gives back a slot that holds no snapshot.
  void release(StateSlot slot);
  // Gives back a slot that holds the state after these contents. `replaceable`: the snapshot lives only until
  // its sequence has a later one, unless another sequence has used it.
  void keep(StateSlot slot, ContentId contents, bool replaceable);
  // Counts a snapshot as used.
  void touch(StateSlot slot);
  bool is_replaceable(StateSlot slot) const { return at(slot).replaceable; }
  // Turns a snapshot into an empty slot.
  void drop(StateSlot slot);
  // Number of slots that hold snapshots.
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
