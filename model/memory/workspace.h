// Scratch memory for one step, reused by every layer.
#pragma once

#include "model/memory/buffer.h"
#include "tp/tensor.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tp {

// A stack of tensors. A Frame gives back what was taken while it lived. The capacity is fixed when it is
// made, from the model and the largest step (the prefill chunk): a longer prompt never needs more.
class Workspace {
 public:
  explicit Workspace(std::size_t floats)
      : memory_(floats, "the workspace"), data_(memory_.data()), capacity_(floats) {}
  // One without memory or limit, which only counts: its tensors are shapes.
  static Workspace counting() { return Workspace(); }

  // An uninitialized [rows, columns] tensor that begins on a cache line. Throws ConfigError when the step is
  // larger than the workspace was made for.
  TensorView<float> take(std::size_t rows, std::size_t columns);
  TensorView<double> take_doubles(std::size_t rows, std::size_t columns);

  // Two stacks in the memory of this one, which must outlive them and not be used meanwhile.
  std::array<Workspace, 2> halves() const;

  std::size_t capacity_bytes() const { return capacity_ * sizeof(float); }
  // The most that was in use at once.
  std::size_t peak_bytes() const { return peak_ * sizeof(float); }

  class Frame {
   public:
    explicit Frame(Workspace& workspace) : workspace_(workspace), used_(workspace.used_) {}
    ~Frame() { clear(); }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

    // Gives back what was taken until now.
    void clear() { workspace_.used_ = used_; }

   private:
    Workspace& workspace_;
    std::size_t used_;
  };

 private:
  static constexpr std::size_t kAlignment = 16;  // floats: a cache line

  Workspace() : capacity_(SIZE_MAX) {}
  Workspace(float* data, std::size_t floats) : data_(data), capacity_(floats) {}

  Buffer<float> memory_;   // empty if it is another one's
  float* data_ = nullptr;  // null if it only counts
  std::size_t capacity_;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace tp
