#include "runtime/engine/rank_status.h"

#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/mpi_session.h"
#include "tp/error.h"

#include <exception>
#include <new>
#include <stdexcept>

#include <fmt/format.h>

namespace tp {

std::string rank_prefix(std::size_t rank, std::size_t size) {
  return rank == 0 ? "" : fmt::format("[rank {}/{}] ", rank, size);
}

int status_of(std::size_t rank, std::size_t size, const ErrorReport& report,
              const std::function<int()>& body) {
  // Memory for the report if memory runs out. The block is small enough to come from the heap, so that it
  // stays usable after it is freed.
  std::string reserve(96 << 10, '\0');
  const auto fail = [&](const char* message) {
    reserve = std::string();
    report(rank, size, message);
    if (size > 1) MpiSession::abort(1);
    return 1;
  };
  try {
    return body();
  } catch (const AgreedError& error) {
    if (rank == 0) report(error.rank(), size, error.what());
    return 1;
  } catch (const std::bad_alloc&) {
    return fail(kRankOutOfMemory);
  } catch (const std::length_error&) {  // a container is larger than any memory
    return fail(kRankOutOfMemory);
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

int lead_or_follow(const Communicator& comm, Engine& engine, const std::function<int()>& lead) {
  if (!comm.is_root()) return engine.follow();
  try {
    return lead();
  } catch (const LockstepError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw AgreedError(kRankOutOfMemory, 0);
  } catch (const std::exception& error) {
    throw AgreedError(error.what(), 0);
  }
}

}  // namespace tp
