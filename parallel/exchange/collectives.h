// The one place where ranks exchange tensors. Every call is counted in Communicator::stats().
#pragma once

#include "parallel/shard/partial_sum.h"
#include "parallel/shard/shard.h"
#include "tp/communicator.h"
#include "tp/tensor.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// The sum of all ranks' addends, [tokens, hidden_size], equal on every rank. Addends must be floats; this
// rank's is overwritten. Throws CommError.
TensorView<float> all_reduce(Communicator& comm, PartialSum partial);
// All-reduces into `out`, of the same shape; addends may be doubles.
void all_reduce(Communicator& comm, PartialSum partial, TensorView<float> out);

// x += all_reduce(partial) in one pass: the residual stream `x`, [tokens, hidden_size], is equal on every
// rank before and after. Counted as one all-reduce, including the addition. Throws CommError.
void add_all_reduced(Communicator& comm, PartialSum partial, TensorView<float> x);

// Concatenates column shards on rank 0: rank r passes `local`, [rows, shards[r].size()]; rank 0 receives them
// side by side in `out`, [rows, sum of sizes], which other ranks leave empty. Throws CommError.
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

// Element-wise sum over ranks, on every rank. The order of addition is unspecified: pass values whose sum
// does not depend on it. Throws CommError.
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

// Sends to[r] to every rank r, and receives from[r] from it: the sizes must agree. [size()] each; a rank's
// own are ignored. Throws CommError.
void exchange_parts(Communicator& comm, std::span<const std::span<const std::byte>> to,
                    std::span<const std::span<std::byte>> from);

// Broadcasts rank 0's bytes. Waiting ranks sleep after a short while, so that an idle rank does not occupy a
// core. Throws CommError.
void broadcast_bytes(Communicator& comm, std::span<std::byte> bytes);

// The maximum over ranks, on every rank. Throws CommError.
std::int64_t max_over_ranks(Communicator& comm, std::int64_t value);

// Seconds that this rank spent waiting for others inside the all-reduces that Communicator::stats() counts.
// The last rank to arrive does not wait, so the shortest duration of a call is that of the exchange itself;
// whatever the call took longer on other ranks is waiting. Collective: ranks compare the durations of the
// calls not compared yet. Throws CommError.
double waiting_seconds(Communicator& comm);

// Returns when every rank has called it. Throws CommError.
void barrier(Communicator& comm);

}  // namespace tp
