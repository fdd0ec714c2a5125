#include "launch/plan/plan_probe.h"

#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/plan/plan_flags.h"
#include "launch/ranks/rank_program.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/placement.h"
#include "parallel/machine/processors.h"
#include "runtime/plan/probe.h"

#include <fmt/format.h>

namespace tp {

void add_probe_options(CLI::App& command, ProbeFlags& flags, CLI::Option& probe) {
  const OptionGroup options(command);
  options
      .add("--threads", flags.threads, "N", whole_number(1, kMaxThreads),
           "Threads per rank while probing (default: as for generate)")
      ->needs(&probe);
  options
      .add("--timeout", flags.timeout, "SECONDS", whole_number(1),
           "Abort the probe if a rank waits longer than this for another rank")
      ->needs(&probe);
}

int run_probe(const CLI::App& command, const ProbeFlags& flags, std::optional<WeightType> weights,
              const std::string& output) {
  return run_on_ranks(CommandLine::of(command), flags.timeout, [&](Communicator& comm) {
    std::optional<ResultOutput> result;
    std::size_t threads = flags.threads;
    fail_together(comm, [&] {
      if (threads == 0) threads = default_threads(comm.placement());
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
