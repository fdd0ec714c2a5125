// The sum over ranks, by messages only.
#pragma once

#include "parallel/exchange.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// One-shot for small messages: every rank receives all addends and adds them up. Two-shot for larger ones:
// every rank adds up its part (reduce-scatter) and sends the sum to all (all-gather). Both add in the order
// that AllReduce specifies.
class MessageAllReduce {
 public:
  // `hosts`: the ranks of `exchange` on each host, in the order of addition. By default every rank is on a
  // host of its own.
  explicit MessageAllReduce(Exchange& exchange, std::vector<std::vector<std::size_t>> hosts = {});

  // As AllReduce::operator().
  void operator()(std::span<float> data, float* onto = nullptr);

 private:
  void sum_whole(std::span<float> piece, float* onto);
  void sum_parts(std::span<float> piece, float* onto);
  void add_up(const std::vector<const float*>& addends, std::size_t size, const float* onto, float* out);

  Exchange& exchange_;
  std::vector<std::vector<std::size_t>> hosts_;
  std::vector<float> received_;
  std::vector<float> whole_;
  std::vector<float> host_sums_;
};

}  // namespace tp
