#include "parallel/shard/host_heads.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tp {
namespace {

// The numbers that a bound may have.
struct Gate {
  std::size_t min;
  std::size_t max;
};

// The next bend of a string that starts at `bound` in gate `first` and is pulled tight through all later
// gates: the gate where it bends, or the last gate, and its bound there.
std::pair<std::size_t, std::size_t> next_bend(std::span<const Gate> gates, std::size_t first,
                                              std::size_t bound) {
  const auto slope = [&](std::size_t to, std::size_t gate) {
    return (static_cast<double>(to) - static_cast<double>(bound)) / static_cast<double>(gate - first);
  };
  double steepest = std::numeric_limits<double>::infinity();
  double flattest = -steepest;
  std::size_t upper = first + 1;  // the gates that limit the slope
  std::size_t lower = first + 1;
  for (std::size_t gate = first + 1; gate < gates.size(); ++gate) {
    const double max = slope(gates[gate].max, gate);
    const double min = slope(gates[gate].min, gate);
    if (min > steepest) return {upper, gates[upper].max};
    if (max < flattest) return {lower, gates[lower].min};
    if (max <= steepest) {
      steepest = max;
      upper = gate;
    }
    if (min >= flattest) {
      flattest = min;
      lower = gate;
    }
  }
  return {gates.size() - 1, gates.back().max};
}

// The bounds of the most equal parts: a string pulled tight has the most equal slopes.
std::vector<std::size_t> tight_bounds(std::span<const Gate> gates) {
  std::vector<std::size_t> bounds = {gates.front().min};
  while (bounds.size() < gates.size()) {
    const std::size_t first = bounds.size() - 1;
    const std::size_t begin = bounds.back();
    const auto [bend, end] = next_bend(gates, first, begin);
    for (std::size_t gate = first + 1; gate <= bend; ++gate) {
      const std::size_t bound = begin + (end - begin) * (gate - first) / (bend - first);
      bounds.push_back(std::clamp(bound, gates[gate].min, gates[gate].max));
    }
  }
  return bounds;
}

}  // namespace

HostHeads::HostHeads(std::span<const Range> read, std::size_t blocks) : blocks_(blocks) {
  std::size_t end = 0;  // the end of the heads that have a number
  for (const Range& heads : read) {
    const std::size_t known = heads.begin < end ? std::min(end, heads.end) - heads.begin : 0;
    read_.push_back({heads_ - known, heads_ - known + heads.size()});
    heads_ = std::max(heads_, read_.back().end);
    end = std::max(end, heads.end);
  }
  std::vector<Gate> gates = {{0, 0}};
  for (std::size_t rank = 1; rank < read_.size(); ++rank)
    gates.push_back({read_[rank].begin * blocks, read_[rank - 1].end * blocks});
  gates.push_back({heads_ * blocks, heads_ * blocks});
  bounds_ = tight_bounds(gates);
}

bool HostHeads::are_shared() const {
  std::size_t readers = 0;
  for (const Range& heads : read_) readers += heads.size();
  return readers > heads_;
}

Range HostHeads::owned_by(std::size_t rank, std::size_t head) const {
  const auto in_head = [&](std::size_t bound) {
    return std::clamp(bound, head * blocks_, (head + 1) * blocks_) - head * blocks_;
  };
  return {in_head(bounds_[rank]), in_head(bounds_[rank + 1])};
}

double HostHeads::owned_heads(std::size_t rank) const {
  return static_cast<double>(bounds_[rank + 1] - bounds_[rank]) / static_cast<double>(blocks_);
}

std::size_t HostHeads::owners_of(std::size_t head) const {
  std::size_t owners = 0;
  for (std::size_t rank = 0; rank < read_.size(); ++rank) owners += owned_by(rank, head).empty() ? 0 : 1;
  return owners;
}

}  // namespace tp
