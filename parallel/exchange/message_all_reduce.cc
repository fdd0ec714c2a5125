#include "parallel/exchange/message_all_reduce.h"

#include "parallel/shard/shard.h"
#include "parallel/shard/sums.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

namespace tp {
namespace {

// Addends are summed in pieces of at most this many bytes, to limit the memory for received addends.
constexpr std::size_t kPieceBytes = 1024 * 1024;

// Minimum piece size in bytes and minimum number of ranks for a two-shot, which sends fewer bytes but needs a
// second exchange.
constexpr std::size_t kPartsBytes = 16 * 1024;
constexpr std::size_t kPartsRanks = 3;

constexpr Wait::Manner kManner{.collective = "an all-reduce"};

template <class T>
std::span<const std::byte> bytes_of(const T* elements, std::size_t size) {
  return std::as_bytes(std::span(elements, size));
}
template <class T>
std::span<std::byte> writable_bytes_of(T* elements, std::size_t size) {
  return std::as_writable_bytes(std::span(elements, size));
}

}  // namespace

MessageAllReduce::MessageAllReduce(Exchange& exchange, std::vector<std::vector<std::size_t>> hosts)
    : exchange_(exchange), hosts_(std::move(hosts)) {
  // If every host has one rank, the order of addition is the same as with all ranks on one host.
  if (!hosts_.empty() && hosts_.size() < exchange.size()) return;
  hosts_.assign(1, std::vector<std::size_t>(exchange.size()));
  std::iota(hosts_.front().begin(), hosts_.front().end(), std::size_t{0});
}

template <class T>
void MessageAllReduce::operator()(std::span<const T> addend, const SumTarget& target) {
  constexpr std::size_t kPiece = kPieceBytes / sizeof(T);
  const std::size_t ranks = exchange_.size();
  if (ranks == 1) {
    const T* const only[] = {addend.data()};
    const void* const place = target.floats;
    if (std::is_same_v<T, float> && addend.data() == place && !target.adds) return;
    return sum_to(only, addend.size(), target);
  }
  for (std::size_t begin = 0; begin < addend.size(); begin += kPiece) {
    const std::span<const T> piece = addend.subspan(begin, std::min(kPiece, addend.size() - begin));
    if (ranks < kPartsRanks || piece.size_bytes() < kPartsBytes) {
      sum_whole(piece, target.from(begin));
    } else {
      sum_parts(piece, target.from(begin));
    }
  }
}

template void MessageAllReduce::operator()(std::span<const float> addend, const SumTarget& target);
template void MessageAllReduce::operator()(std::span<const double> addend, const SumTarget& target);

template <class T>
void MessageAllReduce::sum_whole(std::span<const T> piece, const SumTarget& target) {
  const std::size_t size = piece.size();
  T* const received = room<T>(received_, exchange_.size() * size);
  std::vector<std::span<std::byte>> from;
  std::vector<const T*> addends;
  for (std::size_t rank = 0; rank < exchange_.size(); ++rank) {
    from.push_back(writable_bytes_of(received + rank * size, size));
    addends.push_back(rank == exchange_.rank() ? piece.data() : received + rank * size);
  }
  exchange_.to_all(std::as_bytes(piece), from, kManner);
  add_up(addends, size, target);
}

template <class T>
void MessageAllReduce::sum_parts(std::span<const T> piece, const SumTarget& target) {
  const std::size_t ranks = exchange_.size();
  const auto part_of = [&](std::size_t rank) { return split_evenly(piece.size(), {rank, ranks}); };
  const Range own = part_of(exchange_.rank());
  T* const received = room<T>(received_, ranks * own.size());
  float* const whole = target.adds ? room<float>(whole_, piece.size()) : target.floats;

  std::vector<std::span<const std::byte>> to;
  std::vector<std::span<std::byte>> from;
  std::vector<std::span<std::byte>> parts;
  std::vector<const T*> addends;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Range part = part_of(rank);
    to.push_back(bytes_of(piece.data() + part.begin, part.size()));
    from.push_back(writable_bytes_of(received + rank * own.size(), own.size()));
    parts.push_back(writable_bytes_of(whole + part.begin, part.size()));
    addends.push_back(rank == exchange_.rank() ? piece.data() + own.begin : received + rank * own.size());
  }
  exchange_.all_to_all(to, from, kManner);
  add_up(addends, own.size(), {whole + own.begin, false});
  exchange_.to_all(bytes_of(whole + own.begin, own.size()), parts, kManner);
  const float* const sum[] = {whole};
  if (target.adds) sum_to(sum, piece.size(), target);
}

// Writes the sum of the addends, [ranks, size], to the target.
template <class T>
void MessageAllReduce::add_up(const std::vector<const T*>& addends, std::size_t size,
                              const SumTarget& target) {
  const auto ranks_of = [&](const std::vector<std::size_t>& host) {
    std::vector<const T*> of_host;
    for (const std::size_t rank : host) of_host.push_back(addends[rank]);
    return of_host;
  };
  if (hosts_.size() == 1) return sum_to(std::span<const T* const>(ranks_of(hosts_.front())), size, target);
  T* const sums = room<T>(host_sums_, hosts_.size() * size);
  std::vector<const T*> of_hosts;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    sum_of(std::span<const T* const>(ranks_of(hosts_[host])), size, sums + host * size);
    of_hosts.push_back(sums + host * size);
  }
  sum_to(std::span<const T* const>(of_hosts), size, target);
}

template <class T>
T* MessageAllReduce::room(std::vector<double>& memory, std::size_t size) {
  const std::size_t doubles = (size * sizeof(T) + sizeof(double) - 1) / sizeof(double);
  memory.resize(std::max(memory.size(), doubles));
  return reinterpret_cast<T*>(memory.data());
}

}  // namespace tp
