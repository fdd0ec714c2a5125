// Lets all ranks read columns of stored matrices together.
//
// Hosts do not share a page cache, so each would read every matrix of which its ranks need columns. With this
// reader, each rank reads a part of the rows, complete and contiguous, and the ranks exchange their columns.
#pragma once

#include "model/weights/source/fetched_columns.h"
#include "tp/communicator.h"

#include <cstddef>
#include <vector>

namespace tp {

class TwoPhaseReader final : public ColumnReader {
 public:
  // Bytes that a rank reads and sends at a time.
  static constexpr std::size_t kRoundBytes = std::size_t{16} << 20;
  explicit TwoPhaseReader(Communicator& comm, std::size_t round_bytes = kRoundBytes)
      : comm_(comm), round_bytes_(round_bytes) {}

  // Collective. The matrix is the same on all ranks; each rank wants different bytes of the rows. Throws
  // AgreedError if a rank cannot read the file, or has failed elsewhere and waits in fail_together.
  FetchedColumns fetch(const FileRows& matrix, const std::vector<Range>& wanted) const override;

 private:
  Communicator& comm_;
  std::size_t round_bytes_;
};

// Whether ranks read together: if they are on several hosts, or as TP_LOADING=mapped|two-phase says. Throws
// ConfigError for another value.
bool reads_in_two_phases(std::size_t hosts);

}  // namespace tp
