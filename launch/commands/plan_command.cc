#include "launch/commands/subcommands.h"
#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/options/engine_flags.h"
#include "launch/options/model_path.h"
#include "launch/options/wire_flag.h"
#include "launch/plan/described_model.h"
#include "launch/plan/plan_flags.h"
#include "launch/plan/plan_probe.h"
#include "launch/plan/plan_rows.h"
#include "launch/plan/plan_text.h"
#include "launch/ranks/on_first_rank.h"
#include "parallel/machine/processors.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <bit>
#include <memory>

#include <CLI/CLI.hpp>

namespace tp {
namespace {

struct PlanFlags {
  EngineOptions options{};
  std::size_t hosts = 0;
  Cluster cluster;
  std::vector<std::size_t> batches = {1, 16};
  Workload workload;
  bool json = false;
  std::string output;
  ProbeFlags probe;
  bool probes = false;
};

struct PlannedWork {
  EnginePlan plan;
  Workload workload;
  std::size_t longest = 0;  // the model's longest sequence, if a longer one was requested; otherwise 0
};

// Memory and times refer to the same context. The engine's plan ends at the model's longest sequence, so the
// default lengths are limited to it, too.
PlannedWork planned_work(const EnginePlan& plan, const Workload& asked) {
  PlannedWork work{plan, asked};
  const auto limit = [&](std::size_t& tokens, std::size_t usual) {
    if (tokens == usual) tokens = std::min<std::size_t>(tokens, plan.options.max_length);
  };
  limit(work.workload.context, Workload{}.context);
  limit(work.workload.prompt, Workload{}.prompt);
  const std::size_t longest = std::max(work.workload.context, work.workload.prompt);
  if (longest <= plan.options.max_length) return work;
  work.longest = plan.options.max_length;
  work.plan.options.max_length = longest + 1;
  return work;
}

// Throws ConfigError if no row of the prediction would use --split.
void require_split_ranks(const PlanFlags& flags) {
  const std::size_t shares = flags.options.split.size();
  const std::size_t each = flags.cluster.ranks_per_host;
  require<ConfigError>(
      flags.hosts == 0 || shares == 0 || shares == flags.hosts * each,
      "cannot divide the model as asked: expected a number of --split for each of the {} ranks "
      "(--hosts {} times --ranks-per-host {}), found {}; change one of the three",
      flags.hosts * each, flags.hosts, each, shares);
  const bool is_in_table = shares <= kMaxPlannedRanks && std::has_single_bit(shares);
  require<ConfigError>(
      flags.hosts != 0 || shares == 0 || is_in_table,
      "cannot divide the model as asked: expected one of the table's numbers of ranks, 1, 2, "
      "4, ... {}, found {} numbers of --split; name the ranks with --hosts and "
      "--ranks-per-host",
      kMaxPlannedRanks, shares);
}

void plan(const PlanFlags& flags) {
  require_split_ranks(flags);
  set_threads(default_threads_of(flags.cluster.ranks_per_host));
  EngineOptions options = flags.options;
  options.model = find_model_to_describe(options.model);
  options.max_sequences = *std::ranges::max_element(flags.batches);
  options.max_length = std::max(flags.workload.context, flags.workload.prompt) + 1;
  const DescribedModel described(options, std::max<std::size_t>(options.split.size(), 1));
  const PlannedWork work = planned_work(described.plan(), flags.workload);
  const Prediction prediction(work.plan, described.spec(), described.weights(), flags.cluster, work.workload);
  const PlanResult result = make_plan_result(
      prediction, flags.cluster, work.workload, flags.batches,
      {.wanted = work.plan.options.max_sequences * work.plan.options.max_length, .longest = work.longest},
      flags.hosts);
  ResultOutput output(flags.output);
  output.write(flags.json ? plan_json(described, result) : plan_text(described, result));
  output.finish();
}

void add_workload_options(CLI::App& command, PlanFlags& flags) {
  const OptionGroup options(command);
  options.add_list("--batch", flags.batches, "N", whole_number(1, 4096),
                   "Concurrent sequences, or a list: 1,16");
  options.add("--context", flags.workload.context, "N", whole_number(1, 1 << 24),
              "Tokens of each sequence: the size of the cache, and the context of a decode step");
  options.add("--prompt", flags.workload.prompt, "N", whole_number(1, 1 << 24),
              "Tokens of the prompt whose prefill is predicted");
}

}  // namespace

// `tp-infer plan`: a model's predicted speed and memory on other machines. Needs neither MPI nor weights,
// except to probe.
void add_plan_command(CLI::App& app, int& status) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app.add_subcommand("plan", "Predict a model's memory and speed on many hosts");
  add_described_options(*command, flags->options);
  add_wire_option(*command, flags->options.wire);
  OptionGroup(*command).add("--hosts", flags->hosts, "N", whole_number(1, 1024),
                            "Number of hosts to show in detail");
  add_cluster_options(*command, flags->cluster);
  add_workload_options(*command, *flags);
  command->add_flag("--json", flags->json, "One JSON object");
  add_output_option(*command, flags->output);
  CLI::Option* const probe = command->add_flag("--probe", flags->probes,
                                               "Measure these hosts, under mpirun, and print "
                                               "--ranks-per-host, --memory, --bandwidth, --flops and --net");
  add_probe_options(*command, flags->probe, *probe);
  command->footer(
      "Loads no weights. Only --probe needs mpirun. Memory is computed as the engine does before it\n"
      "loads a model. Times are estimates; bench/RESULTS.md compares them with measurements. `limit` is "
      "what\n"
      "takes most of a step's time.\n"
      "Examples:\n"
      "  tp-infer plan --model DIR --hosts 8 --ranks-per-host 2 --memory 256G --bandwidth 300GB/s --flops 4T "
      "\\\n"
      "    --net 30us,10Gb --batch 1,16 --context 8192 --weights int4\n"
      "  tp-infer plan --model Qwen/Qwen3-32B --hosts 2 --weights int4\n"
      "  mpirun --hostfile hosts --map-by ppr:2:node tp-infer plan --probe --weights int4");
  command->callback([=, &status] {
    if (flags->probes)
      status = run_probe(*command, flags->probe, flags->options.weights, flags->output);
    else
      on_first_rank(*command, [flags] { plan(*flags); })();
  });
}

}  // namespace tp
