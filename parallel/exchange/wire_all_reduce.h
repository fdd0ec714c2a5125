// The sum over hosts, by messages between one rank of each: what goes over the wire.
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

// How a sum crosses the wire. All ways add in the order of the hosts, so that they have the same bits.
enum class WireWay : std::uint8_t {
  one_shot,  // every host sends its addend to all and adds up what arrives: one latency
  two_shot,  // every host adds up one part (reduce-scatter) and sends the sum to all (all-gather): two
             // latencies, but fewer bytes if there are more than two hosts
  doubling,  // hosts exchange in pairs the addends that they have, twice as many each time: the bytes of a
             // one-shot in fewer messages, for numbers of hosts that are powers of two
};
// The ways that so many hosts can choose from.
std::vector<WireWay> wire_ways(std::size_t hosts);

// The quickest way for sums of at most so many bytes.
struct WireChoice {
  std::size_t bytes;
  WireWay way;
};

// With a wire type other than f32 every host's addend is rounded to it, and the sum once more, so that every
// host has the same: two roundings however many hosts there are, whichever the way. Doubles are not rounded.
class WireAllReduce {
 public:
  // Pieces on their way at a time: one on the wire, one being summed, one being copied out.
  static constexpr std::size_t kInFlight = 3;
  static constexpr std::size_t kPieceBytes = 256 * 1024;

  // `exchange` connects one rank of each host.
  explicit WireAllReduce(Exchange& exchange);

  // Collective: everyone passes the same. Choices are in ascending order; the last one applies to everything
  // larger.
  void use(WireType type, std::vector<WireChoice> choices);
  WireType type() const { return type_; }
  const std::vector<WireChoice>& choices() const { return choices_; }

  // As AllReduce::operator().
  template <class T>
  void operator()(std::span<const T> addend, const SumTarget& target);

  // One piece, of at most kPieceBytes, of a sum of `whole` bytes. The addend must stay until finish() has
  // completed it, which takes the pieces in turn, and may overwrite it as the target. At most kInFlight at a
  // time, and everyone the same in the same order. Throws CommError.
  template <class T>
  void begin(std::span<const T> addend, const SumTarget& target, std::size_t whole);
  void finish();
  // Goes on with the pieces on their way, as far as messages have arrived.
  void progress();

  // The sums since the last call: pieces, bytes that this rank sent, and seconds in begin() and finish().
  CommCounter take_count();

 private:
  enum class Phase : std::uint8_t { addends, sums, done };

  // A piece on its way.
  struct Piece {
    Phase phase = Phase::done;
    WireWay way = WireWay::one_shot;
    int tag = 0;
    std::size_t held = 1;  // addends, when doubling
    bool doubles = false;
    std::size_t size = 0;
    const std::byte* addend = nullptr;  // [size] floats or doubles
    SumTarget target{};
    Exchange::Messages messages{};
    std::vector<std::byte> sent{};      // the addend, encoded
    std::vector<std::byte> received{};  // a part of every host's addend, [hosts]
    std::vector<float> decoded{};       // decoded elements, if they are encoded
    std::vector<float> sum{};           // [size], likewise
    std::vector<std::byte> sums{};      // [size], as sent
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
