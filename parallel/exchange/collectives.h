// The only place where ranks exchange tensors. Communicator::stats() counts every exchange, except for
// max_over_ranks, waiting_seconds and barrier.
#pragma once

#include "parallel/shard/partial_sum.h"
#include "parallel/shard/shard.h"
#include "tp/communicator.h"
#include "tp/tensor.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// The sum of all ranks' addends, [tokens, hidden_size], equal on every rank. Addends must be floats; the sum
// overwrites this rank's addend. Throws CommError.
TensorView<float> all_reduce(Communicator& comm, PartialSum partial);
// Writes the sum to `out`, which has the same shape. Addends may be doubles.
void all_reduce(Communicator& comm, PartialSum partial, TensorView<float> out);

// x += all_reduce(partial) in one pass. The residual stream `x`, [tokens, hidden_size], is equal on every
// rank before and after. The addition counts as part of the all-reduce. Throws CommError.
void add_all_reduced(Communicator& comm, PartialSum partial, TensorView<float> x);

// Concatenates column shards on rank 0. Rank r passes `local`, [rows, shards[r].size()]. Rank 0 receives them
// side by side in `out`, [rows, sum of sizes]; other ranks pass an empty `out`. Throws CommError.
void gather_columns(Communicator& comm, TensorView<const float> local, std::span<const Range> shards,
                    TensorView<float> out);

// Rank 0 receives every rank's `local` bytes, in rank order; the sizes must be equal. `out` has size() *
// local.size() bytes on rank 0 and is ignored elsewhere. Throws CommError.
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

// Element-wise sum over ranks, on every rank. The order of addition is unspecified, so the values must be
// such that their sum does not depend on the order. Throws CommError.
void exchange_sum(Communicator& comm, std::span<double> values);

// Every rank receives every rank's `local` bytes, in rank order; the sizes must be equal. `out` has size() *
// local.size() bytes. Throws CommError.
void exchange_bytes(Communicator& comm, std::span<const std::byte> local, std::span<std::byte> out);

// Every rank receives every rank's values, in rank order: [size(), local.size()].
template <class T>
std::vector<T> exchange_values(Communicator& comm, std::span<const T> local) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(comm.size() * local.size());
  exchange_bytes(comm, std::as_bytes(local), std::as_writable_bytes(std::span(all)));
  return all;
}

// Sends to[r] to every other rank r, and receives from[r] from rank r. `to` and `from` are [size()]; this
// rank's own elements are ignored. The sender and the receiver must pass the same size. Throws CommError.
void exchange_parts(Communicator& comm, std::span<const std::span<const std::byte>> to,
                    std::span<const std::span<std::byte>> from);

// Broadcasts rank 0's bytes. Waiting ranks soon start to sleep, so that an idle rank does not occupy a core.
// Throws CommError.
void broadcast_bytes(Communicator& comm, std::span<std::byte> bytes);

// The maximum over ranks, on every rank. Throws CommError.
std::int64_t max_over_ranks(Communicator& comm, std::int64_t value);

// Seconds that this rank spent waiting for other ranks inside the all-reduces that Communicator::stats()
// counts. The last rank to arrive does not wait, so the shortest duration of a call over all ranks is the
// time of the exchange itself. Any additional time on other ranks is waiting. Collective, because the ranks
// exchange the durations of all calls since the last comparison. Throws CommError.
double waiting_seconds(Communicator& comm);

// Returns when every rank has called barrier(). Throws CommError.
void barrier(Communicator& comm);

}  // namespace tp
