#include "runtime/engine/rank_status.h"

#include "parallel/exchange/mpi_session.h"
#include "parallel/machine/error_text.h"
#include "parallel/machine/memory_reserve.h"
#include "tp/error.h"

#include <exception>
#include <new>

#include <fmt/format.h>

namespace tp {

std::string rank_prefix(std::size_t rank, std::size_t size) {
  return rank == 0 ? "" : fmt::format("[rank {}/{}] ", rank, size);
}

int status_of(std::size_t rank, std::size_t size, const ErrorReport& report,
              const std::function<int()>& body) {
  MemoryReserve reserve;
  try {
    return body();
  } catch (const AgreedError& error) {
    if (rank == 0) report(error.rank(), size, error.what());
    return 1;
  } catch (const std::exception& error) {
    reserve.release();
    report(rank, size, error_text(error));
    if (size > 1) MpiSession::abort(1);
    return 1;
  }
}

int lead_or_follow(const Communicator& comm, Engine& engine, const std::function<int()>& lead) {
  if (!comm.is_root()) return engine.follow();
  try {
    return lead();
  } catch (const LockstepError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;  // the other ranks may wait inside a step, and telling them takes memory
  } catch (const std::exception& error) {
    throw AgreedError(error_text(error), 0);
  }
}

}  // namespace tp
