#include "launch/plan/plan_probe.h"

#include "launch/common/option_checks.h"
#include "launch/common/result_output.h"
#include "launch/plan/plan_flags.h"
#include "launch/ranks/rank_program.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/machine/processors.h"
#include "runtime/plan/probe.h"

#include <fmt/format.h>

namespace tp {

void add_probe_options(CLI::App& command, ProbeFlags& flags, CLI::Option& probe) {
  command.add_option("--threads", flags.threads, "Threads per rank while probing (default: as for generate)")
      ->check(whole_number(1, kMostThreads))
      ->needs(&probe)
      ->type_name("N");
  command
      .add_option("--timeout", flags.timeout,
                  "Abort the probe if a rank waits longer than this for another rank")
      ->check(whole_number(1))
      ->needs(&probe)
      ->type_name("SECONDS");
}

int run_probe(const CLI::App& command, const ProbeFlags& flags, std::optional<WeightType> weights,
              const std::string& output) {
  return run_on_ranks(CommandLine::of(command), flags.timeout, [&](Communicator& comm) {
    std::optional<ResultOutput> result;
    std::size_t threads = flags.threads;
    fail_together(comm, [&] {
      if (threads == 0) threads = default_threads(comm.local_size());
      if (comm.is_root()) result.emplace(output);
    });
    const ProbedCluster probed = probe_cluster(comm, weights.value_or(WeightType::bf16), threads);
    fail_together(comm, [&] {
      if (!comm.is_root()) return;
      result->write(fmt::format("--hosts {} {}\n", probed.hosts, cluster_flags(probed.cluster)));
      result->finish();
    });
    return 0;
  });
}

}  // namespace tp
