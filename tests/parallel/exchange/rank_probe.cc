// A rank without a model, for tests of what launchers and the environment do to ranks.
//
// `rank_probe cores [THREADS]`: rank 0 prints a row per rank with its cores, its threads, and the size of its
// team.
//
// `rank_probe exchange SECONDS TIMEOUT`: the ranks exchange numbers for this time. A rank waits no longer
// than TIMEOUT for others.
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/core_notices.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/mpi_session.h"
#include "parallel/exchange/placement.h"
#include "parallel/machine/binding.h"
#include "parallel/machine/launcher.h"
#include "parallel/machine/processors.h"
#include "parallel/machine/watchdog.h"
#include "tp/communicator.h"
#include "tp/error.h"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <omp.h>

namespace tp {
namespace {

struct Row {
  std::size_t cores = 0;
  std::size_t threads = 0;
  std::size_t team = 0;
};

std::size_t team_size() {
  int size = 0;
#pragma omp parallel
#pragma omp single
  size = omp_get_num_threads();
  return static_cast<std::size_t>(size);
}

void print_cores(Communicator& comm, std::size_t wanted) {
  std::size_t threads = wanted;
  fail_together(comm, [&] {
    if (threads == 0) threads = default_threads(comm.placement());
    set_threads(threads);
  });
  for (const std::string& notice : core_notices(comm, threads)) fmt::print(stderr, "notice: {}\n", notice);
  std::size_t rank = 0;
  for (const Row& row : gather_values(comm, Row{allowed_cores(), threads, team_size()}))
    fmt::print("rank {} cores {} threads {} team {}\n", rank++, row.cores, row.threads, row.team);
}

// The last rank works for half a second between two exchanges, so the others almost always wait for it. It
// sleeps in short pieces, because a long sleep ends while the process is suspended.
void exchange_numbers(Communicator& comm, double seconds) {
  const auto begun = std::chrono::steady_clock::now();
  if (comm.is_root()) {
    fmt::print("begun\n");
    std::fflush(stdout);
  }
  for (bool ends = false; !ends;) {
    const int works = comm.rank() + 1 == comm.size() ? 50 : 1;
    for (int i = 0; i < works; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
    ends = max_over_ranks(comm, passed.count() > seconds ? 1 : 0) != 0;
  }
  if (comm.is_root()) fmt::print("done\n");
}

int run(int count, char** words) {
  const std::string task = count > 1 ? words[1] : "";
  const auto number = [&](int index) { return count > index ? std::atof(words[index]) : 0.0; };
  if (task != "cores" && task != "exchange") {
    fmt::print(stderr, "usage: rank_probe cores [THREADS] | exchange SECONDS TIMEOUT\n");
    return 2;
  }
  widen_default_binding();
  const LaunchedRank launched = launched_rank();
  if (const std::string warning = slurm_fence_warning(); !warning.empty() && launched.rank == 0)
    fmt::print(stderr, "notice: {}\n", warning);
  WaitOptions waits;
  waits.on_long_wait = [](const std::string& text) { fmt::print(stderr, "notice: {}\n", text); };
  waits.patience = 2.0;
  waits.timeout = task == "exchange" ? number(3) : 0.0;
  const auto end_process = [](const std::string& text) {
    fmt::print(stderr, "timeout: {}\n", text);
    std::_Exit(1);
  };
  std::unique_ptr<Watchdog> watchdog;
  if (launched.size > 1) watchdog = std::make_unique<Watchdog>("start", waits, end_process);
  const MpiSession session;
  try {
    Communicator comm = session.all_ranks(waits);
    watchdog.reset();
    if (task == "cores")
      print_cores(comm, static_cast<std::size_t>(number(2)));
    else
      exchange_numbers(comm, number(2));
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    MpiSession::abort(1);
  }
  return 0;
}

}  // namespace
}  // namespace tp

int main(int count, char** words) { return tp::run(count, words); }
