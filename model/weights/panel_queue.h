// Distributes panels among the threads that pack them.
#pragma once

#include "parallel/shard/shard.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

namespace tp {

// Divides [0, count) into a contiguous part per thread, which then lies in the memory of the thread's NUMA
// node. A thread that has finished its part continues with other parts: disks, page caches and other
// processes on the same cores delay some threads more than others.
class PanelQueue {
 public:
  PanelQueue(std::size_t count, std::size_t threads)
      : threads_(threads), parts_(std::make_unique<Part[]>(threads)) {
    for (std::size_t thread = 0; thread < threads; ++thread) {
      const Range part = split_evenly(count, {thread, threads});
      parts_[thread].next = part.begin;
      parts_[thread].end = part.end;
    }
  }

  // Returns a thread's next panel; nothing if all have been taken.
  std::optional<std::size_t> take(std::size_t thread) {
    for (std::size_t i = 0; i < threads_; ++i) {
      Part& part = parts_[(thread + i) % threads_];
      // The counter of a finished part must not increase further: every thread asks once more.
      if (part.next.load(std::memory_order_relaxed) >= part.end) continue;
      const std::size_t panel = part.next.fetch_add(1, std::memory_order_relaxed);
      if (panel < part.end) return panel;
    }
    return std::nullopt;
  }

 private:
  struct alignas(64) Part {  // a separate cache line
    std::atomic<std::size_t> next = 0;
    std::size_t end = 0;
  };

  std::size_t threads_;
  std::unique_ptr<Part[]> parts_;
};

}  // namespace tp
