// The layout of the shared memory for all-reduces within a host, and each byte's main reader.
#pragma once

#include "parallel/exchange/wire_all_reduce.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tp {

// A rank's part of the shared memory: counters, then the buffers for the rank's addends.
struct WindowSlot {
  // Larger pieces would be evicted from the L2 cache before the other ranks have read them.
  static constexpr std::size_t kPieceBytes = 256 * 1024;
  // Buffers begin on page boundaries, so that each buffer can be on a different NUMA node. ARM's systems
  // choose pages of 4, 16 or 64 KiB.
#if defined(__aarch64__)
  static constexpr std::size_t kPageBytes = 65536;
#else
  static constexpr std::size_t kPageBytes = 4096;
#endif
  static constexpr std::size_t kCacheLine = 64;

  alignas(kCacheLine) std::atomic<std::uint64_t> announced;
  alignas(kCacheLine) std::atomic<std::uint64_t> summed;  // on a host root: pieces summed over all hosts
  alignas(kCacheLine) std::byte rest_of_page[kPageBytes - 2 * kCacheLine];

  std::byte* buffer(std::size_t index) {
    return reinterpret_cast<std::byte*>(this) + kPageBytes + index * kPieceBytes;
  }
};
static_assert(sizeof(WindowSlot) == WindowSlot::kPageBytes);

// The layout of the slots on a host with `ranks` ranks.
struct WindowLayout {
  // Minimum piece size in bytes and minimum number of ranks for a two-shot, in which each rank sums only one
  // part. A two-shot reads less memory, but needs a second wait.
  static constexpr std::size_t kTwoShotBytes = 32 * 1024;
  static constexpr std::size_t kTwoShotRanks = 3;

  std::size_t ranks = 1;
  bool several_hosts = false;

  // Two buffers, used alternately. With several hosts, one buffer per piece in flight.
  std::size_t buffers() const { return several_hosts ? WireAllReduce::kInFlight : 2; }
  std::size_t slot_bytes() const { return WindowSlot::kPageBytes + buffers() * WindowSlot::kPieceBytes; }

  bool is_two_shot(std::size_t piece_bytes) const {
    return !several_hosts && ranks >= kTwoShotRanks && piece_bytes >= kTwoShotBytes;
  }

  // Offset in bytes of a rank's addend in its buffer.
  std::size_t place(std::size_t rank, std::size_t piece_bytes) const;

  // The main reader of byte `offset` of `rank`'s slot: the rank that reads it most often. The byte should be
  // on the main reader's NUMA node.
  //
  // - With several hosts: the host root, which adds up all slots. The other ranks read only its result.
  // - In a two-shot: the rank that sums this part of the piece, because no other rank reads the addends
  //   there. The parts are computed for a full piece; in smaller pieces, parts begin earlier.
  // - Otherwise: `rank` itself, because all ranks read the same amount, and only `rank` writes. If large
  //   pieces use two-shots, each rank places small addends inside its own part, so that the rule for
  //   two-shots gives the right reader for small addends, too.
  std::size_t reader(std::size_t rank, std::size_t offset) const;
};

}  // namespace tp
