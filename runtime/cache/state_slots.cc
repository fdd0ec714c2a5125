#include "runtime/cache/state_slots.h"

#include "tp/internal/require.h"

#include <stdexcept>
#include <utility>

namespace tp {

StateSlots::Taken StateSlots::take() {
  require<std::logic_error>(free() > 0, "all {} states are in use", size());
  const StateSlot slot = free_.pop_front();
  const ContentId evicted = std::exchange(at(slot), {}).contents;
  if (evicted != kNoContents) --snapshots_;
  return {slot, evicted};
}

void StateSlots::release(StateSlot slot) { free_.push_front(slot); }

void StateSlots::keep(StateSlot slot, ContentId contents, bool replaceable) {
  at(slot) = {contents, replaceable};
  free_.push_back(slot);
  ++snapshots_;
}

void StateSlots::touch(StateSlot slot) {
  at(slot).replaceable = false;
  free_.remove(slot);
  free_.push_back(slot);
}

void StateSlots::drop(StateSlot slot) {
  at(slot) = {};
  free_.remove(slot);
  free_.push_front(slot);
  --snapshots_;
}

}  // namespace tp
