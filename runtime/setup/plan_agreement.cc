#include "runtime/setup/plan_agreement.h"

#include "model/config/architectures.h"
#include "model/kernels/simd/isa.h"
#include "model/weights/adapters/adapter.h"
#include "parallel/exchange/agreement.h"
#include "parallel/exchange/archive.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/host_region.h"
#include "parallel/exchange/overlap.h"
#include "parallel/exchange/placement.h"
#include "parallel/exchange/topology.h"
#include "parallel/machine/hash.h"
#include "parallel/machine/processors.h"
#include "runtime/setup/engine_plan_archive.h"
#include "runtime/setup/measured_split.h"
#include "runtime/setup/overlap_choice.h"
#include "tp/internal/require.h"
#include "tp/version.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace tp {
namespace {

// Hashes results of the functions that rotary embeddings, routers and merged softmaxes use. Their last bits
// differ between versions of the library, and between processors with and without FMA.
std::uint64_t hash_of_libm() {
  std::string results;
  for (int i = 1; i <= 64; ++i) {
    const double x = 0.37 * i;
    results += fmt::format("{} {} {} {} {} ", std::sin(x * x), std::cos(x * x), std::pow(10000.0, -x / 24),
                           std::log(x), std::exp(static_cast<float>(-x)));
  }
  return hash_of(results);
}

// Makes all ranks use the best instruction set that all of them support. Collective.
void agree_on_isa(Communicator& comm) {
  struct Machine {
    kernels::Isa isa;
    bool pairs_are_fast;
  };
  Machine own{};
  fail_together(comm, [&] { own = {kernels::active_isa(), kernels::bf16_pairs_are_fast()}; });
  kernels::Isa common = own.isa;
  for (const Machine& other : exchange_values(comm, std::span<const Machine>(&own, 1)))
    common = std::min(common, kernels::common_isa(other.isa, other.pairs_are_fast));
  kernels::lower_isa(common);
  fail_together(comm, [&] {
    require_agreement(comm, hash_of_libm(), "the results of the C library's mathematical functions",
                      "install the same version of libc6 on every host, or do without same_bits");
  });
}

// Sets the options that each rank chooses for itself.
void set_own_options(const Communicator& comm, const EngineOptions& options, EnginePlan& plan) {
  if (!options.model.empty()) plan.options.model = options.model;
  if (!options.speculation.model.empty()) plan.options.speculation.model = options.speculation.model;
  plan.options.packed_cache = options.packed_cache;
  if (!plan.options.kv_store.empty() && !options.kv_store.empty()) plan.options.kv_store = options.kv_store;
  plan.options.threads = start_threads(comm, options);
}

// Lets the ranks of a host keep one copy of the cache, or says why they cannot.
void plan_caches(const Placement& world, const std::string& not_shared_because, EnginePlan& plan) {
  share_caches(plan, hosts_of_stages(world, plan.options.pipeline));
  if (not_shared_because.empty()) return;
  if (!plan.host_of.empty()) plan.not_shared_because = not_shared_because;
  plan.options.kv_slices = false;  // for draft models, too
  share_caches(plan, {});
}

}  // namespace

std::vector<std::uint64_t> hosts_of_stages(const Placement& world, std::size_t stages) {
  std::vector<std::uint64_t> hosts;
  for (const std::vector<std::size_t>& stage : divide_into_stages(world, stages)) {
    for (const std::size_t rank : stage) hosts.push_back(world.host_of[rank]);
  }
  return hosts;
}

std::size_t start_threads(const Communicator& comm, const EngineOptions& options) {
  const std::size_t threads = options.threads != 0 ? options.threads : default_threads(comm.placement());
  set_threads(threads);
  return threads;
}

void agree_on_arithmetic(Communicator& comm, const EnginePlan& plan) {
  if (plan.options.same_bits) {
    agree_on_isa(comm);
  } else if (plan.config.num_experts != 0) {
    // Every rank chooses experts on its own, and near a tie the last bit of a norm decides.
    fail_together(comm, [&] {
      require_agreement(comm, static_cast<std::uint64_t>(kernels::active_isa()),
                        "the instruction set, on which the choice of experts depends",
                        "set TP_ISA to one that every host has, for example avx2", [](std::uint64_t isa) {
                          return std::string(kernels::name_of(static_cast<kernels::Isa>(isa)));
                        });
    });
  }
}

void require_same_build(Communicator& comm, const std::string& own) {
  std::string first = own;
  broadcast_object(comm, first);
  fail_together(comm, [&] {
    require<CommError>(
        own == first,
        "the ranks run different programs: expected one build of tp-infer, found {} on rank 0, "
        "and {} on rank {}; start the same program on every host",
        first, own, comm.rank());
  });
}

void agree_on_adapters(Communicator& comm, const EnginePlan& plan, const WeightSource& weights) {
  const Adapters* const adapters = weights.adapters();
  if (plan.options.adapters.empty() || plan.next_token) return;
  fail_together(comm, [&] {
    require_agreement(comm, adapters->fingerprint(), "the adapters' files",
                      "copy the same files to every host");
  });
  // A stage has only some layers, so each rank looks at the shape of all.
  fail_together(comm, [&] { Model::shape_of(plan.spec(), weights, plan.tp(0), plan.weights()); });
}

EnginePlan agree_on_plan(Communicator& comm, const EngineOptions& options) {
  require_same_build(comm, build_text());
  fail_together(comm, [&] { start_threads(comm, options); });
  const bool measures = max_over_ranks(comm, comm.is_root() && options.measured_split ? 1 : 0) != 0;
  const std::vector<double> measured =
      measures ? measure_split(comm, start_threads(comm, options)) : std::vector<double>();
  const bool can_overlap_everywhere = max_over_ranks(comm, can_overlap() ? 0 : 1) == 0;
  std::string not_shared_because;
  HostRegion::can_share(comm, not_shared_because);
  EnginePlan plan;
  fail_together(comm, [&] {
    if (!comm.is_root()) return;
    plan = make_plan(options, comm.size());
    require<ConfigError>(
        kind_of(plan.config) != ModelKind::drafter,
        "cannot run {}: expected a model, found a trained drafter ({}), which only drafts for its target; "
        "use the target as the model, and the drafter for `speculation`",
        options.model.string(), name_of(plan.config.drafter.kind));
    plan.overlaps = plan_overlap(options, plan, comm.placement().hosts.size(), can_overlap_everywhere);
    if (measures) plan.options.split = measured;
    plan_caches(comm.placement(), not_shared_because, plan);
    if (!options.kv_type)
      plan.options.kv_type = default_kv_type(usual_weight_type(plan, *open_weights(plan)));
  });
  broadcast_object(comm, plan);
  set_own_options(comm, options, plan);
  agree_on_arithmetic(comm, plan);
  return plan;
}

}  // namespace tp
