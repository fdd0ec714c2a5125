#include "launch/ranks/rank_program.h"

#include "launch/common/message.h"
#include "launch/common/option_names.h"
#include "launch/ranks/distinct_files.h"
#include "launch/ranks/network_hint.h"
#include "launch/ranks/rank_map.h"
#include "launch/ranks/uncaught_errors.h"
#include "model/files/parse_number.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/mpi_session.h"
#include "parallel/machine/binding.h"
#include "parallel/machine/error_text.h"
#include "parallel/machine/launcher.h"
#include "parallel/machine/link_loss.h"
#include "parallel/machine/watchdog.h"
#include "runtime/engine/rank_status.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>

#include <fmt/format.h>

namespace tp {
namespace {

void report(std::size_t rank, std::size_t size, const std::string& message) {
  print_message(fmt::format("tp-infer: {}{}", rank_prefix(rank, size), with_flags(message)));
}

// Returns the seconds until a long wait is reported. Tests use less. Throws ConfigError.
double patience() {
  const char* const text = std::getenv("TP_PATIENCE");
  if (text == nullptr || *text == '\0') return WaitOptions{}.patience;
  const double seconds = parse_number<double>(text).value_or(0);
  require<ConfigError>(seconds > 0 && seconds <= 1e6,
                       "TP_PATIENCE must be a number of seconds from 0 to 1000000, and not 0; found \"{}\"",
                       text);
  return seconds;
}

WaitOptions wait_options(std::size_t rank, std::size_t size, double timeout) {
  WaitOptions waits;
  waits.on_long_wait = [=](const std::string& text) {
    report(rank, size,
           text +
               "; it may be stopped, swapping or reading from a slow disk (--timeout SECONDS ends "
               "a job that waits longer)");
  };
  waits.timeout = timeout;
  waits.patience = patience();
  return waits;
}

// Before the ranks are connected, and after that, a missing rank can't be determined. Ranks 0 and 1 both
// report the wait, because one of them may be the missing rank. Ending one of them ends the job.
std::unique_ptr<Watchdog> watch_calls(const char* to_what, double timeout) {
  const LaunchedRank launched = launched_rank();
  const auto rank = static_cast<std::size_t>(launched.rank);
  const auto size = static_cast<std::size_t>(launched.size);
  WaitOptions waits = wait_options(rank, size, timeout);
  if (size == 1) return nullptr;
  const bool speaks = rank < 2;
  waits.on_long_wait = [=](const std::string& text) {
    if (!speaks) return;
    report(
        rank, size,
        text +
            "; one may be stopped, or be another program (--timeout SECONDS ends a job that waits longer)" +
            network_hint());
  };
  return std::make_unique<Watchdog>(to_what, waits, [=](const std::string& text) {
    if (speaks)
      report(rank, size,
             text +
                 ", more than --timeout allows; one may be stopped, or be another program: look at the "
                 "command line of mpirun" +
                 network_hint());
    std::_Exit(1);
  });
}

// Returns the exit status. Reports errors.
int run_together(Communicator& comm, const CommandLine& command,
                 const std::function<int(Communicator&)>& body) {
  return status_of(comm.rank(), comm.size(), report, [&] {
    require_same_command_line(comm, command);
    fail_together(comm, [&] {
      if (comm.is_root()) require_distinct_files(command.files);
    });
    return body(comm);
  });
}

}  // namespace

int run_on_ranks(const CommandLine& command, double wanted, const std::function<int(Communicator&)>& body) {
  widen_default_binding();  // also for the threads that MPI starts
  const LinkLoss plan = plan_link_loss(wanted);
  if (const std::string warning = slurm_fence_warning(); !warning.empty() && launched_rank().rank == 0)
    print_message("tp-infer: " + warning);
  std::unique_ptr<Watchdog> watchdog = watch_calls("start", plan.timeout);
  // Finalizes MPI after the communicator's destruction.
  const MpiSession session;
  return status_of(session.rank(), session.size(), report, [&] {
    report_uncaught_errors(session.rank(), session.size(), with_flags(kRankOutOfMemory));
    Communicator comm = session.all_ranks(wait_options(session.rank(), session.size(), plan.timeout));
    watchdog.reset();
    if (comm.is_root() && !plan.notice.empty())
      print_note(fmt::format("tp-infer: {}\n", with_flags(plan.notice)));
    const int status = run_together(comm, command, body);
    barrier(comm);  // the barrier names a rank that doesn't arrive
    watchdog = watch_calls("end", plan.timeout);
    return status;
  });
}

void run_on_first_rank(const CommandLine& command, const std::function<void()>& work) {
  if (launched_rank().size == 1) {
    require_distinct_files(command.files);
    return work();
  }
  std::exception_ptr error;
  const int status = run_on_ranks(command, 0, [&](Communicator& comm) {
    if (!comm.is_root()) return 0;
    try {
      work();
    } catch (...) {
      error = std::current_exception();  // rethrown after the other ranks have been released
    }
    return 0;
  });
  if (error) std::rethrow_exception(error);
  if (status != 0) throw ReportedError("ranks that were not started alike");
}

namespace {

void warn_of_inexact_sums(Engine& engine) {
  if (!engine.info().options.same_bits) return;
  const std::vector<RankReport> reports = engine.reports();
  const auto is_inexact = [](const RankReport& rank) { return rank.inexact_sums != 0; };
  if (std::ranges::none_of(reports, is_inexact)) return;
  print_message(
      "tp-infer: some sums over ranks may have exceeded 4194304 (1073741824 for squares of queries and "
      "keys), the limit of --same-bits: their last bits may depend on the number of ranks");
}

}  // namespace

int lead_or_follow(Communicator& comm, Engine& engine, bool verbose, const std::function<int()>& lead) {
  return lead_or_follow(comm, engine, [&] {
    const int status = lead();
    warn_of_inexact_sums(engine);
    if (verbose) print_cache_nodes(engine);
    return status;
  });
}

}  // namespace tp
