// Scratch memory for one step, reused by every layer.
#pragma once

#include "model/memory/buffer.h"
#include "tp/tensor.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tp {

// A stack of tensors. A Frame releases the tensors that were taken during its life. The capacity is fixed: it
// depends on the model and the largest step (the prefill chunk), so longer prompts need no more.
class Workspace {
 public:
  explicit Workspace(std::size_t floats)
      : memory_(floats, "the workspace"), data_(memory_.data()), capacity_(floats) {}
  // A workspace without memory or limit, which only counts: its tensors are shapes.
  static Workspace counting() { return Workspace(); }

  // An uninitialized [rows, columns] tensor that begins on a cache line. Throws ConfigError if it does not
  // fit.
  TensorView<float> take(std::size_t rows, std::size_t columns);
  TensorView<double> take_doubles(std::size_t rows, std::size_t columns);
  // A row for each OpenMP thread, [threads, columns].
  TensorView<float> take_per_thread(std::size_t columns);

  // Two workspaces in this workspace's memory. It must outlive them, and must not be used meanwhile.
  std::array<Workspace, 2> halves() const;

  std::size_t capacity_bytes() const { return capacity_ * sizeof(float); }
  // The most bytes in use at once.
  std::size_t peak_bytes() const { return peak_ * sizeof(float); }

  class Frame {
   public:
    explicit Frame(Workspace& workspace) : workspace_(workspace), used_(workspace.used_) {}
    ~Frame() { clear(); }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

    // Releases the tensors taken until now.
    void clear() { workspace_.used_ = used_; }

   private:
    Workspace& workspace_;
    std::size_t used_;
  };

 private:
  static constexpr std::size_t kAlignment = 16;  // floats: a cache line

  Workspace() : capacity_(SIZE_MAX) {}
  Workspace(float* data, std::size_t floats) : data_(data), capacity_(floats) {}

  Buffer<float> memory_;   // empty if another workspace owns the memory
  float* data_ = nullptr;  // null if the workspace only counts
  std::size_t capacity_;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace tp
