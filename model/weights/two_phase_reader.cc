#include "model/weights/two_phase_reader.h"

#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace tp {
namespace {

// The parts of a row that a rank wants, padded with empty ranges. Rows may contain several parts that are
// multiplied together (queries, keys and values).
using Wanted = std::array<Range, 4>;

Wanted padded(const std::vector<Range>& ranges) {
  Wanted all{};
  if (ranges.size() > all.size()) throw std::logic_error("too many parts of a matrix are wanted at once");
  std::copy(ranges.begin(), ranges.end(), all.begin());
  return all;
}

std::size_t total_of(const Wanted& ranges) {
  std::size_t total = 0;
  for (const Range& range : ranges) total += range.size();
  return total;
}

// Copies the wanted bytes of some rows, without gaps.
void gather(std::span<const std::byte> rows, std::size_t row_bytes, const Wanted& wanted, std::byte* to) {
  for (std::size_t begin = 0; begin < rows.size(); begin += row_bytes) {
    for (const Range& range : wanted) {
      if (!range.empty()) std::memcpy(to, rows.data() + begin + range.begin, range.size());
      to += range.size();
    }
  }
}

}  // namespace

FetchedColumns TwoPhaseReader::fetch(const FileRows& matrix, const std::vector<Range>& wanted) const {
  if (matrix.rows == 0 || matrix.row_bytes == 0) return {matrix.rows, wanted};
  const std::size_t ranks = comm_.size();
  const std::size_t share = std::max<std::size_t>(1, round_bytes_ / matrix.row_bytes);  // rows per rank
  const std::size_t round_rows = share * ranks;
  std::optional<FetchedColumns> fetched;
  Wanted own_wanted{};
  std::vector<Wanted> wanted_of;
  std::vector<std::byte> read;
  std::vector<std::vector<std::byte>> to(ranks);
  std::vector<std::span<const std::byte>> sent(ranks);
  std::vector<std::span<std::byte>> received(ranks);
  // The rows that a rank reads in the round that begins at `first`.
  const auto rows_of = [&](std::size_t first, std::size_t rank) {
    const std::size_t rows = std::min(round_rows, matrix.rows - std::min(first, matrix.rows));
    const Range part = split_evenly(rows, {rank, ranks});
    return Range{first + part.begin, first + part.end};
  };
  for (std::size_t first = 0; first < matrix.rows; first += round_rows) {
    const Range own = rows_of(first, comm_.rank());
    // Each round begins like the end of fail_together, where a rank that has failed elsewhere may be waiting.
    // Memory is allocated only in these sections: a rank that failed between them would leave other ranks in
    // an exchange.
    fail_together(comm_, [&] {
      if (first == 0) {
        own_wanted = padded(wanted);
        fetched.emplace(matrix.rows, wanted);
        read.reserve(share * matrix.row_bytes);
      }
      read.resize(own.size() * matrix.row_bytes);
      matrix.file->read(matrix.bytes_of(own).begin, read);
      matrix.file->will_need(matrix.bytes_of(rows_of(first + round_rows, comm_.rank())));
    });
    if (first == 0) {
      wanted_of = exchange_values(comm_, std::span<const Wanted>(&own_wanted, 1));
      fail_together(comm_, [&] {
        for (std::size_t rank = 0; rank < ranks; ++rank)
          if (rank != comm_.rank()) to[rank].resize(share * total_of(wanted_of[rank]));
      });
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Range theirs = rows_of(first, rank);
      received[rank] = {fetched->data() + theirs.begin * fetched->stride(),
                        theirs.size() * fetched->stride()};
      if (rank == comm_.rank()) {
        gather(read, matrix.row_bytes, own_wanted, received[rank].data());
      } else {
        gather(read, matrix.row_bytes, wanted_of[rank], to[rank].data());
        sent[rank] = std::span(to[rank]).first(own.size() * total_of(wanted_of[rank]));
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
