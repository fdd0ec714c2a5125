#include "parallel/exchange/wire_all_reduce.h"

#include "parallel/machine/stopwatch.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <type_traits>
#include <utility>

namespace tp {
namespace {

constexpr Wait::Manner kManner{.collective = "an all-reduce between hosts"};

// Largest sum, in bytes, that uses one_shot before anything is measured. Latency dominates smaller sums, and
// bandwidth dominates larger sums.
constexpr std::size_t kSmall = 16 * 1024;

// Each piece in flight has two consecutive tags: one for its addends, one for its sums. Other messages use
// tag 0.
int tag_of(std::uint64_t piece) { return 1 + 2 * static_cast<int>(piece % WireAllReduce::kInFlight); }

template <class Element>
Element* room(std::vector<Element>& memory, std::size_t size) {
  if (memory.size() < size) memory.resize(size);
  return memory.data();
}

}  // namespace

std::vector<WireWay> wire_ways(std::size_t hosts) {
  // With two hosts, two_shot adds a latency but saves no bytes, and doubling is the same as one_shot.
  if (hosts <= 2) return {WireWay::one_shot};
  if (!std::has_single_bit(hosts)) return {WireWay::one_shot, WireWay::two_shot};
  return {WireWay::one_shot, WireWay::two_shot, WireWay::doubling};
}

WireAllReduce::WireAllReduce(Exchange& exchange) : exchange_(exchange) {
  if (exchange.size() > 2) choices_.push_back({kSmall, WireWay::one_shot});
  choices_.push_back({kPieceBytes, exchange.size() > 2 ? WireWay::two_shot : WireWay::one_shot});
}

void WireAllReduce::use(WireType type, std::vector<WireChoice> choices) {
  assert(!choices.empty() && begun_ == finished_);
  type_ = type;
  choices_ = std::move(choices);
}

WireWay WireAllReduce::way_of(std::size_t bytes) const {
  for (const WireChoice& choice : choices_) {
    if (bytes <= choice.bytes) return choice.way;
  }
  return choices_.back().way;
}

CommCounter WireAllReduce::take_count() { return std::exchange(count_, {}); }

template <class T>
void WireAllReduce::operator()(std::span<const T> addend, const SumTarget& target) {
  constexpr std::size_t kPiece = kPieceBytes / sizeof(T);
  for (std::size_t begun = 0; begun < addend.size(); begun += kPiece) {
    if (begun_ - finished_ == kInFlight) finish();
    begin(addend.subspan(begun, std::min(kPiece, addend.size() - begun)), target.from(begun),
          addend.size_bytes());
  }
  while (finished_ < begun_) finish();
}

template <class T>
void WireAllReduce::begin(std::span<const T> addend, const SumTarget& target, std::size_t whole) {
  assert(begun_ - finished_ < kInFlight && addend.size_bytes() <= kPieceBytes);
  const Stopwatch watch;
  Piece& piece = pieces_[begun_ % kInFlight];
  piece.way = way_of(whole);
  piece.tag = tag_of(begun_);
  piece.doubles = std::is_same_v<T, double>;
  piece.size = addend.size();
  piece.addend = reinterpret_cast<const std::byte*>(addend.data());
  piece.target = target;
  ++begun_;
  send_addends(piece);
  count_.calls += 1;
  count_.seconds += watch.seconds();
}

template void WireAllReduce::operator()(std::span<const float> addend, const SumTarget& target);
template void WireAllReduce::operator()(std::span<const double> addend, const SumTarget& target);
template void WireAllReduce::begin(std::span<const float> addend, const SumTarget& target, std::size_t whole);
template void WireAllReduce::begin(std::span<const double> addend, const SumTarget& target,
                                   std::size_t whole);

void WireAllReduce::finish() {
  assert(finished_ < begun_);
  const Stopwatch watch;
  const auto is_done = [this] {
    progress();
    return oldest().phase == Phase::done;
  };
  exchange_.wait_until(is_done, oldest().messages, kManner);
  put(oldest());
  ++finished_;
  count_.seconds += watch.seconds();
}

void WireAllReduce::progress() {
  for (std::uint64_t piece = finished_; piece < begun_; ++piece) advance(pieces_[piece % kInFlight]);
}

void WireAllReduce::advance(Piece& piece) {
  if (piece.phase == Phase::done || !piece.messages.arrived()) return;
  if (piece.phase == Phase::addends) {
    if (piece.way == WireWay::doubling && piece.held < exchange_.size()) return exchange_held(piece);
    add_up(piece);
    send_sums(piece);
  } else {
    piece.phase = Phase::done;
  }
}

// The part of a piece that a host sums. Parts consist of whole groups of kWireGroup values, so that all
// algorithms encode the same groups.
Range WireAllReduce::part_of(const Piece& piece, std::size_t host) const {
  if (piece.way != WireWay::two_shot) return {0, piece.size};
  return split_evenly(piece.size, {host, exchange_.size()}, kWireGroup);
}

std::size_t WireAllReduce::addend_bytes(const Piece& piece, std::size_t size) const {
  return piece.doubles ? size * sizeof(double) : wire_bytes(type_, size);
}

std::size_t WireAllReduce::sum_bytes(const Piece& piece, std::size_t size) const {
  return wire_bytes(piece.doubles ? WireType::f32 : type_, size);
}

void WireAllReduce::send_addends(Piece& piece) {
  const std::byte* sent = piece.addend;
  if (is_encoded(piece)) {
    std::byte* const encoded = room(piece.sent, addend_bytes(piece, piece.size));
    wire_encode(type_, {reinterpret_cast<const float*>(piece.addend), piece.size}, encoded);
    sent = encoded;
  }
  const std::size_t own_bytes = addend_bytes(piece, part_of(piece, exchange_.rank()).size());
  std::byte* const received = room(piece.received, exchange_.size() * own_bytes);
  piece.phase = Phase::addends;
  if (piece.way == WireWay::doubling) {
    std::copy_n(sent, own_bytes, received + exchange_.rank() * own_bytes);
    piece.held = 1;
    return exchange_held(piece);
  }
  std::vector<Exchange::ConstBytes> to;
  std::vector<Exchange::Bytes> from;
  for (std::size_t host = 0; host < exchange_.size(); ++host) {
    const Range part = part_of(piece, host);
    to.emplace_back(sent + addend_bytes(piece, part.begin), addend_bytes(piece, part.size()));
    from.emplace_back(received + host * own_bytes, own_bytes);
    if (host != exchange_.rank()) count_.bytes += to.back().size();
  }
  exchange_.begin_all_to_all(to, from, piece.tag, piece.messages);
}

// Exchanges all held addends with one partner. This host holds the addends of piece.held hosts, whose numbers
// differ from its own only in the lowest bits. The partner's number differs only in the next bit.
void WireAllReduce::exchange_held(Piece& piece) {
  const std::size_t bytes = addend_bytes(piece, piece.size);
  const std::size_t partner = exchange_.rank() ^ piece.held;
  const auto held_by = [&](std::size_t host) {
    return Exchange::Bytes(piece.received.data() + host / piece.held * piece.held * bytes,
                           piece.held * bytes);
  };
  std::vector<Exchange::ConstBytes> to(exchange_.size());
  std::vector<Exchange::Bytes> from(exchange_.size());
  to[partner] = held_by(exchange_.rank());
  from[partner] = held_by(partner);
  count_.bytes += to[partner].size();
  exchange_.begin_all_to_all(to, from, piece.tag, piece.messages);
  piece.held *= 2;
}

// Encodes this host's part of the sum. In a two-shot, sends the part to the other hosts; otherwise, every
// host already has the whole sum.
void WireAllReduce::send_sums(Piece& piece) {
  const Range own = part_of(piece, exchange_.rank());
  std::byte* const sums = piece.sums.data();
  if (is_encoded(piece))
    wire_encode(type_, std::span<const float>(piece.sum).subspan(own.begin, own.size()),
                sums + sum_bytes(piece, own.begin));
  piece.phase = Phase::done;
  if (piece.way != WireWay::two_shot) return;
  std::vector<Exchange::Bytes> from;
  for (std::size_t host = 0; host < exchange_.size(); ++host) {
    const Range part = part_of(piece, host);
    from.emplace_back(sums + sum_bytes(piece, part.begin), sum_bytes(piece, part.size()));
  }
  const std::vector<Exchange::ConstBytes> to(exchange_.size(), from[exchange_.rank()]);
  count_.bytes += (exchange_.size() - 1) * to.front().size();
  exchange_.begin_all_to_all(to, from, piece.tag + 1, piece.messages);
  piece.phase = Phase::sums;
}

void WireAllReduce::add_up(Piece& piece) {
  const Range own = part_of(piece, exchange_.rank());
  auto* const sums = reinterpret_cast<float*>(room(piece.sums, sum_bytes(piece, piece.size)));
  float* const sum = is_encoded(piece) ? room(piece.sum, piece.size) : sums;
  if (piece.doubles)
    add_up_as<double>(piece, own, sum + own.begin);
  else
    add_up_as<float>(piece, own, sum + own.begin);
}

template <class T>
void WireAllReduce::add_up_as(Piece& piece, const Range& part, float* sum) {
  if (is_encoded(piece)) room(piece.decoded, exchange_.size() * part.size());
  std::vector<const T*> addends;
  for (std::size_t host = 0; host < exchange_.size(); ++host)
    addends.push_back(addend_of<T>(piece, host, part));
  sum_to(std::span<const T* const>(addends), part.size(), {sum, false});
}

// A host's addend after transmission. Even this host's own addend is decoded from its encoding, so that all
// hosts get the same sum.
template <class T>
const T* WireAllReduce::addend_of(Piece& piece, std::size_t host, const Range& part) {
  const bool is_own = host == exchange_.rank();
  const std::byte* const received = piece.received.data() + host * addend_bytes(piece, part.size());
  if constexpr (std::is_same_v<T, float>) {
    if (is_encoded(piece)) {
      float* const decoded = piece.decoded.data() + host * part.size();
      wire_decode(type_, is_own ? piece.sent.data() + addend_bytes(piece, part.begin) : received,
                  {decoded, part.size()});
      return decoded;
    }
  }
  return is_own ? reinterpret_cast<const T*>(piece.addend) + part.begin
                : reinterpret_cast<const T*>(received);
}

void WireAllReduce::put(Piece& piece) {
  const float* sum[] = {reinterpret_cast<const float*>(piece.sums.data())};
  if (is_encoded(piece)) {
    wire_decode(type_, piece.sums.data(), {piece.sum.data(), piece.size});
    sum[0] = piece.sum.data();
  }
  sum_to(std::span<const float* const>(sum), piece.size, piece.target);
}

}  // namespace tp
