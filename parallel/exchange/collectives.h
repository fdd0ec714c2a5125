// The only way to exchange tensors, except between pipeline stages (mailbox.h). Communicator::stats() counts
// all collectives except max_over_ranks, waiting_seconds and barrier.
#pragma once

#include "parallel/shard/partial_sum.h"
#include "parallel/shard/shard.h"
#include "tp/communicator.h"
#include "tp/tensor.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// Returns the sum of all ranks' addends, [tokens, hidden_size], which is the same on every rank. Addends must
// be floats; the sum overwrites this rank's addend. Throws CommError.
TensorView<float> all_reduce(Communicator& comm, PartialSum partial);
// Writes the sum to `out`, which has the addend's shape. Addends may be doubles.
void all_reduce(Communicator& comm, PartialSum partial, TensorView<float> out);

// x += all_reduce(partial), in one pass. The residual stream `x`, [tokens, hidden_size], is the same on every
// rank, both before and after the call. The addition counts towards the all-reduce's time. Throws CommError.
void add_all_reduced(Communicator& comm, PartialSum partial, TensorView<float> x);

// Concatenates column shards on rank 0. Rank r passes its shard as `local`, [rows, shards[r].size()]. Rank 0
// receives the shards side by side in `out`, [rows, sum of sizes]; other ranks pass an empty `out`. Throws
// CommError.
void gather_columns(Communicator& comm, TensorView<const float> local, std::span<const Range> shards,
                    TensorView<float> out);

// Rank 0 receives every rank's `local` bytes, in rank order; all ranks must pass the same size. `out` has
// comm.size() * local.size() bytes on rank 0 and is ignored on other ranks. Throws CommError.
void gather_bytes(Communicator& comm, std::span<const std::byte> local, std::span<std::byte> out);

// Rank 0 receives every rank's value, in rank order; other ranks get an empty vector.
template <class T>
std::vector<T> gather_values(Communicator& comm, const T& local) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(comm.is_root() ? comm.size() : 0);
  gather_bytes(comm, std::as_bytes(std::span(&local, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

// Element-wise maximum over ranks, on every rank. No value may be NaN. Throws CommError.
void exchange_max(Communicator& comm, std::span<float> values);

// Element-wise sum over ranks, on every rank. The order of addition is unspecified, so use it only for values
// whose sum is the same in any order. Throws CommError.
void exchange_sum(Communicator& comm, std::span<double> values);

// Every rank receives every rank's `local` bytes, in rank order; all ranks must pass the same size. `out` has
// comm.size() * local.size() bytes. Throws CommError.
void exchange_bytes(Communicator& comm, std::span<const std::byte> local, std::span<std::byte> out);

// Every rank receives every rank's values, in rank order: [comm.size(), local.size()].
template <class T>
std::vector<T> exchange_values(Communicator& comm, std::span<const T> local) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(comm.size() * local.size());
  exchange_bytes(comm, std::as_bytes(local), std::as_writable_bytes(std::span(all)));
  return all;
}

// Exchanges bytes with every other rank r: sends to[r], and receives into from[r]. `to` and `from` are
// [comm.size()]; this rank's own elements are ignored. The sender and the receiver must pass the same size.
// Throws CommError.
void exchange_parts(Communicator& comm, std::span<const std::span<const std::byte>> to,
                    std::span<const std::span<std::byte>> from);

// Broadcasts rank 0's bytes. Waiting ranks soon begin to sleep, so that idle ranks don't occupy cores. Throws
// CommError.
void broadcast_bytes(Communicator& comm, std::span<std::byte> bytes);

// The maximum over ranks, on every rank. Throws CommError.
std::int64_t max_over_ranks(Communicator& comm, std::int64_t value);

// Seconds that this rank has waited for other ranks inside the all-reduces that Communicator::stats() counts.
// The last rank to arrive does not wait. It spends the least time in the call: the time of the exchange
// itself. Any extra time on other ranks is waiting. Collective, because the ranks exchange the durations of
// their all-reduces since the last call of this function. Throws CommError.
double waiting_seconds(Communicator& comm);

// Returns when every rank has called barrier(). Throws CommError.
void barrier(Communicator& comm);

}  // namespace tp
