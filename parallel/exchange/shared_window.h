// The memory through which the ranks of a host add up: which rank's data is where, and who reads it.
#pragma once

#include "parallel/exchange/wire_all_reduce.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tp {

// A rank's part of the window: counters, then the buffers of its addends.
struct WindowSlot {
  // 256 KiB: larger pieces leave the second-level cache before the other ranks have read them.
  static constexpr std::size_t kPieceBytes = 256 * 1024;
  // Buffers begin on pages, so that each has its own node.
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kCacheLine = 64;

  alignas(kPageBytes) std::atomic<std::uint64_t> announced;
  alignas(kCacheLine) std::atomic<std::uint64_t> summed;  // by a host root, over all hosts

  std::byte* buffer(std::size_t index) {
    return reinterpret_cast<std::byte*>(this) + kPageBytes + index * kPieceBytes;
  }
};
static_assert(sizeof(WindowSlot) == WindowSlot::kPageBytes);

// How `ranks` of one host use their slots.
struct WindowLayout {
  // From here on, and with this many ranks, each rank adds up a part only: less to read, but a second wait.
  static constexpr std::size_t kTwoShotBytes = 32 * 1024;
  static constexpr std::size_t kTwoShotRanks = 3;

  std::size_t ranks = 1;
  bool several_hosts = false;

  // Two, which calls use alternately; with several hosts, as many as there are pieces in flight.
  std::size_t buffers() const { return several_hosts ? WireAllReduce::kInFlight : 2; }
  std::size_t slot_bytes() const { return WindowSlot::kPageBytes + buffers() * WindowSlot::kPieceBytes; }

  bool is_two_shot(std::size_t piece_bytes) const {
    return !several_hosts && ranks >= kTwoShotRanks && piece_bytes >= kTwoShotBytes;
  }

  // Offset of a rank's addend of a piece in its buffer, in bytes.
  std::size_t place(std::size_t rank, std::size_t piece_bytes) const;

  // The rank that reads the slot of `rank` at this byte most, in whose memory it should be:
  //
  // - with several hosts the host root, which adds up all slots; the others read only its result;
  // - where each rank adds up a part of a piece, the rank of that part: nobody else reads the addends there.
  //   The division is that of a whole piece; parts of smaller ones lie a little further to the front;
  // - else the rank itself: all read as much, and it writes besides. So that this holds, too, where small
  //   pieces are read by all and large ones in parts, small addends are placed within the rank's own part.
  std::size_t reader(std::size_t rank, std::size_t offset) const;
};

}  // namespace tp
