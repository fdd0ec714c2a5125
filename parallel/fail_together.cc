#include "parallel/fail_together.h"

#include "parallel/collectives.h"
#include "parallel/mpi_call.h"

#include <cstdint>
#include <new>

namespace tp {
namespace {

// What went wrong in `work`, or an empty string.
std::string error_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const AgreedError&) {
    throw;  // all ranks know already
  } catch (const std::bad_alloc&) {
    return "out of memory; use more ranks or hosts, or a smaller cache (--cache-tokens)";
  } catch (const std::exception& error) {
    return *error.what() != '\0' ? error.what() : "unknown error";
  }
}

}  // namespace

void fail_together(Communicator& comm, const std::function<void()>& work) {
  std::string message = error_of(work);
  // The lowest rank wins: the largest of (size - rank), 0 for success.
  const auto vote = message.empty() ? 0 : static_cast<std::int64_t>(comm.size() - comm.rank());
  const std::int64_t winner = max_over_ranks(comm, vote);
  if (winner == 0) return;
  const std::size_t failed = comm.size() - static_cast<std::size_t>(winner);

  const int root = static_cast<int>(failed);
  std::uint64_t length = message.size();
  TP_MPI(MPI_Bcast(&length, 1, MPI_UINT64_T, root, comm.handle()));
  message.resize(length);
  TP_MPI(MPI_Bcast(message.data(), static_cast<int>(length), MPI_CHAR, root, comm.handle()));
  throw AgreedError(message, failed);
}

}  // namespace tp
