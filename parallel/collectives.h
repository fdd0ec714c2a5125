// The one place where ranks exchange tensors. Every call is counted in Communicator::stats().
#pragma once

#include "parallel/partial_sum.h"
#include "parallel/shard.h"
#include "tp/communicator.h"
#include "tp/tensor.h"

#include <cstddef>
#include <span>
#include <vector>

namespace tp {

// The sum of all ranks' addends, [tokens, hidden_size], equal on every rank; it replaces this rank's addend
// in place. Throws CommError.
TensorView<float> all_reduce(Communicator& comm, PartialSum partial);

// x += all_reduce(partial), without another pass over the sum: the residual stream `x`, [tokens,
// hidden_size], is equal on every rank before and after. Counts as an all-reduce, the addition included.
// Throws CommError.
void add_all_reduced(Communicator& comm, PartialSum partial, TensorView<float> x);

// Joins column shards on rank 0: rank r holds `local`, [rows, shards[r].size()], and rank 0 gets them side by
// side in `out`, [rows, sum of sizes]; on other ranks `out` is ignored. Throws CommError.
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

// Every value becomes the greatest of the ranks' values, on every rank. No value may be NaN. Throws
// CommError.
void exchange_max(Communicator& comm, std::span<float> values);

// Every value becomes the sum of the ranks' values, on every rank. The order of addition is not specified, so
// the values should be such that it does not matter. Throws CommError.
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

// Rank 0's bytes replace those of every other rank. Waiting ranks sleep after a short while, so that a rank
// that has nothing to do does not burn a core. Throws CommError.
void broadcast_bytes(Communicator& comm, std::span<std::byte> bytes);

// The largest of the ranks' values, on every rank. Throws CommError.
std::int64_t max_over_ranks(Communicator& comm, std::int64_t value);

// Seconds that this rank waited for others inside all-reduces, as far as Communicator::stats() counts them: a
// call takes as long as the exchange on the rank that comes last, and whatever it takes longer elsewhere is
// waiting. Collective: the ranks compare their times of the calls that they have not compared yet. Throws
// CommError.
double waiting_seconds(Communicator& comm);

// Returns when every rank has called it. Throws CommError.
void barrier(Communicator& comm);

}  // namespace tp
