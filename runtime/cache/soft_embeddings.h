// The soft embeddings that passes over canvases leave for the next pass over the same canvas.
#pragma once

#include "model/memory/buffer.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// A soft embedding for each position of each canvas: [canvas_length, hidden_size] per canvas. All memory is
// allocated in the constructor, so that a step cannot run out of memory on a single rank.
class SoftEmbeddings {
 public:
  SoftEmbeddings(std::size_t canvases, std::size_t canvas_length, std::size_t hidden_size);

  static std::uint64_t bytes_of(std::size_t canvases, std::size_t canvas_length, std::size_t hidden_size) {
    return std::uint64_t{canvases} * canvas_length * hidden_size * sizeof(float);
  }
  std::size_t hidden_size() const { return hidden_size_; }

  // The soft embedding of a canvas's position, [hidden_size]; null if no pass with this key has left any.
  const float* find(std::uint64_t key, std::size_t index) const;
  // Room for the soft embedding of a canvas's position, [hidden_size]. Throws std::logic_error if `canvases`
  // others have some, or if the canvas has no such position.
  std::span<float> room(std::uint64_t key, std::size_t index);
  // Forgets the soft embeddings of a canvas, if there are any.
  void drop(std::uint64_t key);

 private:
  std::vector<std::uint64_t> keys_;  // [canvases]; 0: free
  std::size_t canvas_length_;
  std::size_t hidden_size_;
  Buffer<float> memory_;  // [canvases, canvas_length, hidden_size]
};

}  // namespace tp
