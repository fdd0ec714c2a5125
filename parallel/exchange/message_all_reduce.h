// All-reduce with messages only.
#pragma once

#include "parallel/exchange/exchange.h"
#include "parallel/shard/sums.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Small sums take one exchange (one-shot): every rank receives all addends and adds them up. Larger sums take
// two exchanges (two-shot): every rank sums one part (reduce-scatter), and sends its sum, in floats, to all
// ranks (all-gather). Both add in the order that AllReduce specifies.
class MessageAllReduce {
 public:
  // `hosts` lists the ranks of `exchange` on each host, in the order of addition. By default, every rank has
  // its own host.
  explicit MessageAllReduce(Exchange& exchange, std::vector<std::vector<std::size_t>> hosts = {});

  // Like AllReduce::operator(), for floats and doubles.
  template <class T>
  void operator()(std::span<const T> addend, const SumTarget& target);

 private:
  template <class T>
  void sum_whole(std::span<const T> piece, const SumTarget& target);
  template <class T>
  void sum_parts(std::span<const T> piece, const SumTarget& target);
  template <class T>
  void add_up(const std::vector<const T*>& addends, std::size_t size, const SumTarget& target);

  // Grows `memory` to at least `size` elements of T, and returns their address.
  template <class T>
  static T* room(std::vector<double>& memory, std::size_t size);

  Exchange& exchange_;
  std::vector<std::vector<std::size_t>> hosts_;
  std::vector<double> received_;
  std::vector<double> whole_;
  std::vector<double> host_sums_;
};

}  // namespace tp
