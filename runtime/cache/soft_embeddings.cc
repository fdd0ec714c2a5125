#include "runtime/cache/soft_embeddings.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <stdexcept>

namespace tp {

SoftEmbeddings::SoftEmbeddings(std::size_t canvases, std::size_t canvas_length, std::size_t hidden_size)
    : keys_(canvases),
      canvas_length_(canvas_length),
      hidden_size_(hidden_size),
      memory_(canvases * canvas_length * hidden_size, "the soft embeddings") {}

const float* SoftEmbeddings::find(std::uint64_t key, std::size_t index) const {
  const auto slot = static_cast<std::size_t>(std::ranges::find(keys_, key) - keys_.begin());
  if (slot == keys_.size() || index >= canvas_length_) return nullptr;
  return memory_.data() + (slot * canvas_length_ + index) * hidden_size_;
}

std::span<float> SoftEmbeddings::room(std::uint64_t key, std::size_t index) {
  auto slot = std::ranges::find(keys_, key);
  if (slot == keys_.end()) slot = std::ranges::find(keys_, std::uint64_t{0});
  require<std::logic_error>(slot != keys_.end() && index < canvas_length_,
                            "no room for the soft embedding {} of the canvas {}, among {} of {} positions",
                            index, key, keys_.size(), canvas_length_);
  *slot = key;
  const auto place = static_cast<std::size_t>(slot - keys_.begin()) * canvas_length_ + index;
  return {memory_.data() + place * hidden_size_, hidden_size_};
}

void SoftEmbeddings::drop(std::uint64_t key) { std::ranges::replace(keys_, key, std::uint64_t{0}); }

}  // namespace tp
