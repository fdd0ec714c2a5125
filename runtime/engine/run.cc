#include "tp/run.h"

#include "model/files/printable.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/mpi_session.h"
#include "parallel/machine/binding.h"
#include "runtime/engine/rank_status.h"
#include "tp/error.h"

#include <cerrno>
#include <cstdio>

#include <fmt/format.h>

namespace tp {
namespace {

// Prints one line in one write, so that the lines of several ranks do not mix.
void print_report(std::size_t rank, std::size_t size, const std::string& message) {
  constexpr std::size_t kLongest = 4096;  // bytes
  const std::string line =
      fmt::format("{}: {}{}", program_invocation_short_name, rank_prefix(rank, size), message);
  std::fputs((printable(line, kLongest) + "\n").c_str(), stderr);
}

WaitOptions reported_waits(std::size_t rank, std::size_t size) {
  WaitOptions waits;
  waits.on_long_wait = [=](const std::string& text) {
    print_report(rank, size, text + "; it may be stopped, swapping or reading from a slow disk");
  };
  return waits;
}

}  // namespace

int run(Communicator& comm, const EngineOptions& options, const Lead& lead) {
  return status_of(comm.rank(), comm.size(), print_report, [&] {
    Engine engine(comm, options);
    return lead_or_follow(comm, engine, [&] { return lead(engine); });
  });
}

int run(const EngineOptions& options, const Lead& lead) try {
  widen_default_binding();  // also applies to the threads that MPI starts
  const MpiSession session;
  return status_of(session.rank(), session.size(), print_report, [&] {
    Communicator comm = session.all_ranks(reported_waits(session.rank(), session.size()));
    const int status = run(comm, options, lead);
    barrier(comm);  // reports a rank that is late
    return status;
  });
} catch (const Error& error) {  // MPI cannot start
  print_report(0, 1, error.what());
  return 1;
}

}  // namespace tp
