#include "parallel/message_all_reduce.h"

#include "parallel/shard.h"
#include "parallel/sums.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tp {
namespace {

// 1 MiB: bounds the memory for what other ranks send.
constexpr std::size_t kPieceFloats = 256 * 1024;

// From here on, and with this many ranks, each rank adds up a part only: less to send, but a second exchange.
constexpr std::size_t kPartsFloats = 4 * 1024;
constexpr std::size_t kPartsRanks = 3;

constexpr Wait::Manner kManner{.collective = "an all-reduce"};

std::span<const std::byte> bytes_of(const float* floats, std::size_t size) {
  return std::as_bytes(std::span(floats, size));
}
std::span<std::byte> writable_bytes_of(float* floats, std::size_t size) {
  return std::as_writable_bytes(std::span(floats, size));
}

}  // namespace

MessageAllReduce::MessageAllReduce(Exchange& exchange, std::vector<std::vector<std::size_t>> hosts)
    : exchange_(exchange), hosts_(std::move(hosts)) {
  // Hosts of one rank each are added up like one host of all ranks.
  if (!hosts_.empty() && hosts_.size() < exchange.size()) return;
  hosts_.assign(1, std::vector<std::size_t>(exchange.size()));
  std::iota(hosts_.front().begin(), hosts_.front().end(), std::size_t{0});
}

void MessageAllReduce::operator()(std::span<float> data, float* onto) {
  const std::size_t ranks = exchange_.size();
  if (ranks == 1) {
    if (onto != nullptr) add_up({data.data()}, data.size(), onto, onto);
    return;
  }
  for (std::size_t begin = 0; begin < data.size(); begin += kPieceFloats) {
    const std::span<float> piece = data.subspan(begin, std::min(kPieceFloats, data.size() - begin));
    float* const target = onto != nullptr ? onto + begin : nullptr;
    if (ranks < kPartsRanks || piece.size() < kPartsFloats) {
      sum_whole(piece, target);
    } else {
      sum_parts(piece, target);
    }
  }
}

void MessageAllReduce::sum_whole(std::span<float> piece, float* onto) {
  const std::size_t size = piece.size();
  received_.resize(std::max(received_.size(), exchange_.size() * size));
  std::vector<std::span<std::byte>> from;
  std::vector<const float*> addends;
  for (std::size_t rank = 0; rank < exchange_.size(); ++rank) {
    from.push_back(writable_bytes_of(received_.data() + rank * size, size));
    addends.push_back(rank == exchange_.rank() ? piece.data() : received_.data() + rank * size);
  }
  exchange_.to_all(bytes_of(piece.data(), size), from, kManner);
  add_up(addends, size, onto, onto != nullptr ? onto : piece.data());
}

void MessageAllReduce::sum_parts(std::span<float> piece, float* onto) {
  const std::size_t ranks = exchange_.size();
  const auto part_of = [&](std::size_t rank) { return split_evenly(piece.size(), {rank, ranks}); };
  const Range own = part_of(exchange_.rank());
  received_.resize(std::max(received_.size(), ranks * own.size()));
  if (onto != nullptr) whole_.resize(std::max(whole_.size(), piece.size()));
  float* const whole = onto != nullptr ? whole_.data() : piece.data();

  std::vector<std::span<const std::byte>> to;
  std::vector<std::span<std::byte>> from;
  std::vector<std::span<std::byte>> parts;
  std::vector<const float*> addends;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Range part = part_of(rank);
    float* const received = received_.data() + rank * own.size();
    to.push_back(bytes_of(piece.data() + part.begin, part.size()));
    from.push_back(writable_bytes_of(received, own.size()));
    parts.push_back(writable_bytes_of(whole + part.begin, part.size()));
    addends.push_back(rank == exchange_.rank() ? piece.data() + own.begin : received);
  }
  exchange_.all_to_all(to, from, kManner);
  add_up(addends, own.size(), nullptr, whole + own.begin);
  exchange_.to_all(bytes_of(whole + own.begin, own.size()), parts, kManner);
  if (onto == nullptr) return;
  const float* const sum_and_target[] = {whole, onto};
  sum_of(sum_and_target, piece.size(), onto);
}

// out = the sum of the addends, [ranks] of [size] each, and of `onto`, if given. `out` may be one of them.
void MessageAllReduce::add_up(const std::vector<const float*>& addends, std::size_t size, const float* onto,
                              float* out) {
  std::vector<const float*> last;
  const auto ranks_of = [&](const std::vector<std::size_t>& host) {
    std::vector<const float*> of_host;
    for (const std::size_t rank : host) of_host.push_back(addends[rank]);
    return of_host;
  };
  if (hosts_.size() == 1) {
    last = ranks_of(hosts_.front());
  } else {
    host_sums_.resize(std::max(host_sums_.size(), hosts_.size() * size));
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      float* const sum = host_sums_.data() + host * size;
      sum_of(ranks_of(hosts_[host]), size, sum);
      last.push_back(sum);
    }
  }
  if (onto != nullptr) last.push_back(onto);
  sum_of(last, size, out);
}

}  // namespace tp
