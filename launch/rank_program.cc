#include "launch/rank_program.h"

#include "launch/message.h"
#include "parallel/binding.h"
#include "parallel/fail_together.h"
#include "parallel/mpi_session.h"
#include "tp/error.h"

#include <cstdio>
#include <new>

namespace tp {
namespace {

constexpr const char* kOutOfMemory = "out of memory; use more ranks or hosts, or a smaller --cache-tokens";

void report_error(std::size_t rank, std::size_t size, const char* message) {
  const std::string where = rank == 0 ? "" : fmt::format("[rank {}/{}] ", rank, size);
  print_message(fmt::format("tp-infer: {}{}", where, message));
}

// Ends the job with this rank's error; a rank that is alone returns the exit status. `reserve` is memory for
// saying so, in case that ran out.
int fail(const Communicator& comm, std::string& reserve, const char* message) {
  reserve = std::string();
  report_error(comm.rank(), comm.size(), message);
  if (comm.size() > 1) MpiSession::abort(1);
  return 1;
}

}  // namespace

int run_on_ranks(const std::function<int(Communicator&)>& body) {
  widen_default_binding();  // also for the threads that MPI starts
  const MpiSession session;
  Communicator comm(MPI_COMM_WORLD);
  // Small enough to come from the heap, so that freeing it leaves it usable.
  std::string reserve(96 << 10, '\0');
  try {
    return body(comm);
  } catch (const AgreedError& error) {
    if (comm.is_root()) report_error(error.rank(), comm.size(), error.what());
    return 1;
  } catch (const std::bad_alloc&) {
    return fail(comm, reserve, kOutOfMemory);
  } catch (const std::exception& error) {
    return fail(comm, reserve, error.what());
  }
}

int lead_or_follow(Communicator& comm, Engine& engine, const std::function<int()>& lead) {
  if (!comm.is_root()) return engine.follow();
  try {
    return lead();
  } catch (const LockstepError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw AgreedError(kOutOfMemory, 0);
  } catch (const std::exception& error) {
    throw AgreedError(error.what(), 0);
  }
}

}  // namespace tp
