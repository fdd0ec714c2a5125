#include "runtime/plan/prediction.h"

#include "tp/error.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

// Ranks fill one host after the other, in the order of the stages.
Placement placement_of(const Cluster& cluster, std::size_t ranks) {
  Placement placement;
  placement.hosts.resize(cluster.hosts_of(ranks));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t host = rank / cluster.ranks_per_host;
    placement.processes.push_back({0, fmt::format("host {}", host)});
    placement.hosts[host].push_back(rank);
    placement.host_of.push_back(host);
  }
  return placement;
}

// The speed of a rank, relative to the mean. Speeds are assumed to be proportional to shares.
double speed_of(const EnginePlan& plan, std::size_t rank) {
  if (plan.options.split.empty()) return 1.0;
  const double sum = std::accumulate(plan.options.split.begin(), plan.options.split.end(), 0.0);
  return plan.options.split[rank] * static_cast<double>(plan.options.split.size()) / sum;
}

// Elements per token that a stage sends to the next stage: the residual stream, and the positions that shared
// indexers have chosen.
std::size_t stage_output(const ModelSpec& spec, std::size_t context) {
  const std::size_t chosen = shares_indexers(spec) ? max_chosen(spec) : 0;
  return streams_of(spec) * spec.hidden_size + stream_weights_of(spec) + (context >= chosen ? chosen : 0);
}

}  // namespace

EnginePlan Prediction::divided(Division division) const {
  EnginePlan plan = plan_;
  plan.options.pipeline = division.stages;
  plan.ranks = division.ranks;
  if (plan.options.split.size() != division.ranks) plan.options.split.clear();
  if (plan.options.kv_slices && cluster_.ranks_per_host > 1) {
    std::vector<std::uint64_t> host_of;
    for (std::size_t rank = 0; rank < division.all_ranks(); ++rank)
      host_of.push_back(rank / cluster_.ranks_per_host);
    share_caches(plan, std::move(host_of));
  }
  return plan;
}

std::optional<std::string> Prediction::refusal(Division division) const {
  if (division.stages > spec_.blocks.size()) {
    return fmt::format("{} stages, but the model has {} layers", division.stages, spec_.blocks.size());
  }
  if (division.stages > 1 && !can_divide_layers(spec_))
    return "layers read keys and values, or inputs, of other layers, so they cannot be divided into stages";
  try {
    Model::shape_of(spec_, source_, divided(division).tp(0), plan_.weights());
  } catch (const ConfigError& error) {
    return error.what();
  }
  return std::nullopt;
}

Prediction::RanksOnHosts Prediction::place(Division division, const EnginePlan& plan,
                                           const Footprint& footprint) const {
  RanksOnHosts all{placement_of(cluster_, division.all_ranks()), {}};
  for (std::size_t rank = 0; rank < division.all_ranks(); ++rank) {
    const Stage stage{rank / division.ranks, division.stages};
    RankMemory& memory =
        all.ranks.emplace_back(RankMemory{.need = footprint.of(plan.tp(rank % division.ranks), {}, stage),
                                          .memory = cluster_.memory,
                                          .addresses = UINT64_MAX,
                                          .tensor_rank = rank % division.ranks,
                                          .stage = stage.index});
    std::string_view("--memory").copy(memory.memory_limit, sizeof(memory.memory_limit) - 1);
  }
  return all;
}

HostFit Prediction::fit(const EnginePlan& plan, const Footprint& footprint, const RanksOnHosts& all) const {
  const CacheShape shape = plan.cache_shape(footprint.groups());
  const std::size_t tokens = plan.options.max_sequences * plan.options.max_length;
  const std::uint64_t blocks = shape.blocks_for(tokens, plan.options.max_sequences);
  HostFit host;
  for (const std::vector<std::size_t>& members : all.placement.hosts) {
    MemoryNeed need;
    for (const std::size_t rank : members) need += all.ranks[rank].need;
    host.tables = std::max(host.tables, tables_on(all.ranks, members));
    if (need.with_blocks(blocks) <= host.peak) continue;
    host.need = need;
    host.peak = need.with_blocks(blocks);
    host.cache = blocks * need.cache_block;
  }
  try {
    const CachePlan cache = plan_cache(plan, footprint, all.ranks, all.placement, tokens);
    host.has_whole_cache = cache.notice.empty();
    host.cache_tokens =
        std::min(tokens, shape.tokens_in(cache.blocks, plan.options.max_sequences, plan.options.max_length));
  } catch (const ConfigError& error) {
    host.refusal = error.what();
  }
  return host;
}

HostFit Prediction::memory(Division division) const {
  const EnginePlan plan = divided(division);
  const Footprint footprint(spec_, plan, source_);
  const RanksOnHosts all = place(division, plan, footprint);
  if (division.ranks > cluster_.ranks_per_host && lacks_room_for_tables(all.ranks, all.placement)) {
    ModelSpec spec = spec_;
    divide_hash_tables(spec);
    const Footprint of_parts(spec, plan, source_);
    HostFit parts = fit(plan, of_parts, place(division, plan, of_parts));
    parts.divides_tables = true;
    if (parts.has_whole_cache) return parts;
  }
  return fit(plan, footprint, all);
}

std::optional<std::size_t> Prediction::fewest_hosts(bool stages) const {
  const auto division_on = [&](std::size_t hosts) {
    return stages ? Division{hosts, cluster_.ranks_per_host} : Division{1, hosts * cluster_.ranks_per_host};
  };
  const auto fits = [&](std::size_t hosts) {
    const Division division = division_on(hosts);
    return !refusal(division) &&
           memory(division).cache_tokens >= plan_.options.max_sequences * plan_.options.max_length;
  };
  // A host needs less memory the more hosts there are, so bisection finds the smallest number.
  std::size_t enough = 1;
  while (!fits(enough)) {
    if (refusal(division_on(2 * enough))) return std::nullopt;
    enough *= 2;
  }
  std::size_t too_few = enough / 2;
  while (enough - too_few > 1) {
    const std::size_t middle = too_few + (enough - too_few) / 2;
    (fits(middle) ? enough : too_few) = middle;
  }
  return enough;
}

const RankShape& Prediction::slowest(Division division, std::size_t stage) const {
  const ShapeKey key{division, stage};
  if (const auto known = shapes_.find(key); known != shapes_.end()) return known->second;
  const EnginePlan plan = divided(division);
  ModelSpec spec = spec_;
  if (has_hash_tables(spec) && memory(division).divides_tables) divide_hash_tables(spec);
  std::optional<RankShape> max;
  for (std::size_t rank = 0; rank < division.ranks; ++rank) {
    RankShape shape = shape_of_rank(spec, plan, source_, plan.tp(rank), {stage, division.stages});
    shape.speed = speed_of(plan, rank);
    const auto time = [](const RankShape& of) {
      return static_cast<double>(of.work.blocks.bytes + of.work.head.bytes) / of.speed;
    };
    if (!max || time(shape) > time(*max)) max = std::move(shape);
  }
  return shapes_.emplace(key, std::move(*max)).first->second;
}

StepTime Prediction::stage_time(Division division, std::size_t stage, const StepLoad& load) const {
  return step_time(slowest(division, stage), cluster_, division.ranks, load);
}

// `in_flight` steps of this load follow each other through the stages. Returns the time from one round of
// these steps to the next.
StepTime Prediction::all_stages(Division division, const StepLoad& load, std::size_t in_flight) const {
  StepTime through;
  StepTime slowest_stage;
  // The middle stages differ by at most one layer, so one of them stands for all.
  const auto add = [&](std::size_t stage, double times) {
    const StepTime time = stage_time(division, stage, load);
    for (double i = 0.0; i < times; ++i) through += time;
    if (time.total() > slowest_stage.total()) slowest_stage = time;
  };
  add(0, 1.0);
  if (division.stages > 2) add(1, static_cast<double>(division.stages) - 2.0);
  if (division.stages > 1) add(division.stages - 1, 1.0);
  const auto hops = static_cast<double>(division.stages - 1);
  const double bytes = static_cast<double>(load.tokens * stage_output(spec_, load.context) * sizeof(float));
  through.sums += hops * message_time(cluster_, bytes);
  StepTime control;
  control.control = control_time(cluster_, division.all_ranks()).total();
  through += control;
  StepTime busy;  // the slowest stage's time for all steps in flight
  for (std::size_t i = 0; i < in_flight; ++i) busy += slowest_stage;
  return busy.total() > through.total() ? busy : through;
}

StepTime Prediction::decode(Division division, std::size_t batch) const {
  const std::size_t in_flight = std::min(division.stages, batch);
  const std::size_t together = (batch + in_flight - 1) / in_flight;
  return all_stages(
      division,
      {.tokens = together, .sequences = together, .context = workload_.context, .outputs = together},
      in_flight);
}

std::vector<StepLoad> Prediction::chunks() const {
  std::vector<StepLoad> loads;
  for (std::size_t begin = 0; begin < workload_.prompt; begin += plan_.options.prefill_chunk) {
    const std::size_t tokens = std::min<std::size_t>(plan_.options.prefill_chunk, workload_.prompt - begin);
    const bool is_last = begin + tokens == workload_.prompt;
    loads.push_back(
        {.tokens = tokens, .context = begin, .outputs = is_last ? std::size_t{1} : std::size_t{0}});
  }
  return loads;
}

// A chunk enters the first stage when the previous chunk has left it.
StepTime Prediction::prefill(Division division) const {
  StepTime time;
  const std::vector<StepLoad> loads = chunks();
  for (std::size_t chunk = 0; chunk + 1 < loads.size(); ++chunk) {
    time +=
        division.stages > 1 ? stage_time(division, 0, loads[chunk]) : all_stages(division, loads[chunk], 1);
  }
  time += all_stages(division, loads.back(), 1);
  return time;
}

double Prediction::cache_copies(Division division) const {
  // Bytes of a block in all layers, on all ranks. Layers in the same place share a block.
  const auto bytes = [&](std::size_t ranks) {
    const EnginePlan plan = divided({1, ranks});
    const CacheGroups groups = plan.cache_groups(spec_);
    double all = 0.0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Model model = Model::shape_of(spec_, source_, plan.tp(rank), plan.weights());
      const std::vector<kernels::KvLayout> layouts =
          model.kv_layouts(plan.kv_type(), plan.options.block_size);
      const CacheSlices slices = plan.cache_slices(spec_, {}, plan.tp(rank), kNominalBlocks);
      for (std::size_t layer = 0; layer < layouts.size(); ++layer) {
        const auto& place = groups.places[layer];
        if (place && std::find(groups.places.begin(), groups.places.begin() + layer, place) ==
                         groups.places.begin() + layer)
          all += static_cast<double>(layouts[layer].head_bytes()) *
                 slices.owned_heads(layer, layouts[layer].kv_heads);
      }
    }
    return all;
  };
  return bytes(division.ranks) / bytes(1);
}

}  // namespace tp
