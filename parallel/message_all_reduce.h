// The sum over ranks by messages alone.
#pragma once

#include "parallel/exchange.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Every rank receives the addends and adds them up itself, small ones whole, of larger ones its part, which
// it then sends to all. The sum is taken in one order, see AllReduce: ranks of a host first, then hosts.
class MessageAllReduce {
 public:
  // `hosts`: the ranks of `exchange` on each host, in the order in which they are added up; by default they
  // are all on hosts of their own.
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
