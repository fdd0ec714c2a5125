#include "model/weights/two_phase_reader.h"

#include "parallel/collectives.h"
#include "parallel/fail_together.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace tp {
namespace {

std::size_t total_of(const std::vector<Range>& ranges) {
  std::size_t total = 0;
  for (const Range& range : ranges) total += range.size();
  return total;
}

// What every rank wants of a row. Collective.
std::vector<std::vector<Range>> exchange_ranges(Communicator& comm, const std::vector<Range>& own) {
  const std::size_t own_count = own.size();
  const std::vector<std::size_t> counts = exchange_values(comm, std::span<const std::size_t>(&own_count, 1));
  std::vector<std::vector<Range>> all;
  for (const std::size_t count : counts) all.emplace_back(count);
  all[comm.rank()] = own;
  const std::vector<std::span<const std::byte>> to(comm.size(), std::as_bytes(std::span(own)));
  std::vector<std::span<std::byte>> from;
  for (std::vector<Range>& ranges : all) from.push_back(std::as_writable_bytes(std::span(ranges)));
  exchange_parts(comm, to, from);
  return all;
}

// The wanted bytes of some rows, side by side.
void gather(std::span<const std::byte> rows, std::size_t row_bytes, const std::vector<Range>& wanted,
            std::byte* to) {
  for (std::size_t begin = 0; begin < rows.size(); begin += row_bytes) {
    for (const Range& range : wanted) {
      std::memcpy(to, rows.data() + begin + range.begin, range.size());
      to += range.size();
    }
  }
}

}  // namespace

FetchedColumns TwoPhaseReader::fetch(const FileRows& matrix, const std::vector<Range>& wanted) const {
  const std::size_t ranks = comm_.size();
  const std::size_t round_rows = std::max<std::size_t>(1, round_bytes_ / matrix.row_bytes) * ranks;
  std::optional<FetchedColumns> fetched;
  std::vector<std::vector<Range>> wanted_of;
  std::vector<std::byte> read;
  std::vector<std::vector<std::byte>> to(ranks);
  // The rows of the round from `first` on that a rank reads.
  const auto rows_of = [&](std::size_t first, std::size_t rank) {
    const std::size_t rows = std::min(round_rows, matrix.rows - std::min(first, matrix.rows));
    const Range part = split_evenly(rows, {rank, ranks});
    return Range{first + part.begin, first + part.end};
  };
  for (std::size_t first = 0; first == 0 || first < matrix.rows; first += round_rows) {
    const Range own = rows_of(first, comm_.rank());
    // Every round begins like fail_together's end, where a rank may be that has failed elsewhere.
    fail_together(comm_, [&] {
      if (!fetched) fetched.emplace(matrix.rows, wanted);
      read.resize(own.size() * matrix.row_bytes);
      matrix.file->read(matrix.bytes_of(own).begin, read);
      matrix.file->will_need(matrix.bytes_of(rows_of(first + round_rows, comm_.rank())));
    });
    if (first == 0) wanted_of = exchange_ranges(comm_, wanted);
    std::vector<std::span<const std::byte>> sent(ranks);
    std::vector<std::span<std::byte>> received(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Range theirs = rows_of(first, rank);
      received[rank] = {fetched->data() + theirs.begin * fetched->stride(),
                        theirs.size() * fetched->stride()};
      if (rank == comm_.rank()) {
        gather(read, matrix.row_bytes, wanted, received[rank].data());
      } else {
        to[rank].resize(own.size() * total_of(wanted_of[rank]));
        gather(read, matrix.row_bytes, wanted_of[rank], to[rank].data());
        sent[rank] = to[rank];
      }
    }
    exchange_parts(comm_, sent, received);
  }
  return std::move(*fetched);
}

bool reads_in_two_phases(std::size_t hosts) {
  const char* const value = std::getenv("TP_LOADING");
  if (value == nullptr || *value == '\0') return hosts > 1;
  const std::string_view way = value;
  require<ConfigError>(way == "mapped" || way == "two-phase",
                       "cannot choose a way of loading: TP_LOADING must be mapped or two-phase, found "
                       "\"{}\"; unset it",
                       way);
  return way == "two-phase";
}

}  // namespace tp
