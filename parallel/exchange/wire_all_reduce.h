// Sums over hosts. One rank of each host takes part; these ranks exchange messages.
#pragma once

#include "parallel/exchange/exchange.h"
#include "parallel/exchange/wire_format.h"
#include "parallel/shard/shard.h"
#include "parallel/shard/sums.h"
#include "tp/communicator.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tp {

// Algorithms for a sum over the wire. All of them add in the order of the hosts and give the same bits.
enum class WireWay : std::uint8_t {
  one_shot,  // every host sends its addend to all hosts and sums all addends: one latency
  two_shot,  // every host sums one part (reduce-scatter) and sends the sum to all hosts (all-gather): two
             // latencies, but fewer bytes if there are more than two hosts
  doubling,  // in each round, pairs of hosts exchange all addends that they hold, which doubles the number of
             // addends on each host: as many bytes as one_shot, but fewer messages; the number of hosts must
             // be a power of two
};
// Algorithms that are useful with `hosts` hosts.
std::vector<WireWay> wire_ways(std::size_t hosts);

// The fastest algorithm for sums of up to `bytes` bytes.
struct WireChoice {
  std::size_t bytes;
  WireWay way;
};

// With a wire type other than f32, each host's addend is rounded once, and so is the sum. The sum is rounded
// even if it is not sent, so that all hosts and all algorithms give the same bits. Doubles are never rounded
// to the wire type.
class WireAllReduce {
 public:
  // Largest number of pieces in flight: one on the wire, one being summed, one being copied out.
  static constexpr std::size_t kInFlight = 3;
  static constexpr std::size_t kPieceBytes = 256 * 1024;

  // `exchange` connects one rank of each host.
  explicit WireAllReduce(Exchange& exchange);

  // Collective: all hosts must pass the same arguments. `choices` are in ascending order of size; the last
  // choice also applies to all larger sums.
  void use(WireType type, std::vector<WireChoice> choices);
  WireType type() const { return type_; }
  const std::vector<WireChoice>& choices() const { return choices_; }

  // Like AllReduce::operator().
  template <class T>
  void operator()(std::span<const T> addend, const SumTarget& target);

  // begin() starts to sum a piece of at most kPieceBytes. `whole` is the size in bytes of the addend that the
  // piece is part of. finish() completes the oldest piece. The addend must remain valid until then; the
  // target may be the same memory. At most kInFlight pieces may be in flight. All hosts must begin the same
  // pieces in the same order. Throws CommError.
  template <class T>
  void begin(std::span<const T> addend, const SumTarget& target, std::size_t whole);
  void finish();
  // Continues the pieces in flight whose messages have arrived.
  void progress();

  // Returns and resets the counts: pieces, bytes that this rank sent, and seconds in begin() and finish().
  CommCounter take_count();

 private:
  enum class Phase : std::uint8_t { addends, sums, done };

  struct Piece {
    Phase phase = Phase::done;
    WireWay way = WireWay::one_shot;
    int tag = 0;
    std::size_t held = 1;  // number of addends held (doubling)
    bool doubles = false;
    std::size_t size = 0;
    const std::byte* addend = nullptr;  // [size] floats or doubles
    SumTarget target{};
    Exchange::Messages messages{};
    std::vector<std::byte> sent{};      // the addend, encoded
    std::vector<std::byte> received{};  // [hosts, part]; every host's addend, as sent
    std::vector<float> decoded{};       // [hosts, part]; the addends, if they were sent encoded
    std::vector<float> sum{};           // [size]; the sum as floats; used only if sums are encoded
    std::vector<std::byte> sums{};      // [size]; the sum, as sent
  };

  Piece& oldest() { return pieces_[finished_ % kInFlight]; }
  WireWay way_of(std::size_t bytes) const;
  bool is_encoded(const Piece& piece) const { return !piece.doubles && type_ != WireType::f32; }
  Range part_of(const Piece& piece, std::size_t host) const;
  std::size_t addend_bytes(const Piece& piece, std::size_t size) const;
  std::size_t sum_bytes(const Piece& piece, std::size_t size) const;

  void send_addends(Piece& piece);
  void exchange_held(Piece& piece);
  void send_sums(Piece& piece);
  void advance(Piece& piece);
  void add_up(Piece& piece);
  template <class T>
  void add_up_as(Piece& piece, const Range& part, float* sum);
  template <class T>
  const T* addend_of(Piece& piece, std::size_t host, const Range& part);
  void put(Piece& piece);

  Exchange& exchange_;
  WireType type_ = WireType::f32;
  std::vector<WireChoice> choices_;
  std::array<Piece, kInFlight> pieces_;
  std::uint64_t begun_ = 0;
  std::uint64_t finished_ = 0;
  CommCounter count_;
};

}  // namespace tp
