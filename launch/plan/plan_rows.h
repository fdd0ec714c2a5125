// The results of `plan` for a model on a cluster.
#pragma once

#include "runtime/plan/prediction.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

constexpr std::size_t kMaxPlannedRanks = 1024;  // in the table of rank counts 1, 2, 4, ...

// One way to divide the model.
struct PlanRow {
  Division division{};
  std::size_t hosts = 1;
  HostFit memory{};
  StepTime prefill{};
  std::vector<StepTime> decode{};  // [batches]

  std::size_t ranks() const { return division.all_ranks(); }
};

// "memory", "arithmetic", "latency", "transfer" or "control": what most of the time goes to.
const char* limit_of(const StepTime& time);

struct PlannedTokens {
  std::size_t wanted = 0;   // capacity of the cache
  std::size_t longest = 0;  // longest sequence of the model, if longer sequences are requested; otherwise 0
};

struct PlanResult {
  Workload workload{};
  std::vector<std::size_t> batches{};
  PlannedTokens tokens{};
  Cluster cluster{};
  std::vector<PlanRow> tensor{};    // one stage on more and more ranks: every stage has all layers
  std::vector<PlanRow> pipeline{};  // one stage per host, with all of its ranks; for two hosts or more
  std::string tensor_ends{};        // reason why the table ends; may be empty
  std::optional<PlanRow> asked{};   // the requested hosts, divided by heads; a row of `tensor`
  std::optional<PlanRow> asked_pipeline{};
  std::string asked_refusal{};  // reason why `asked` is missing
  std::optional<std::size_t> fewest_hosts{};
  std::optional<std::size_t> fewest_hosts_of_stages{};
  double asked_copies = 1.0;  // copies of the cache: see Prediction::cache_copies

  bool fits(const PlanRow& row) const { return tokens.longest == 0 && has_room(row); }
  bool has_room(const PlanRow& row) const { return row.memory.cache_tokens >= tokens.wanted; }
  double prefill_rate(const PlanRow& row) const {
    return static_cast<double>(workload.prompt) / row.prefill.total();
  }
  double decode_rate(const PlanRow& row, std::size_t index) const {
    return static_cast<double>(batches[index]) / row.decode[index].total();
  }
};

// Returns rows for 1, 2, 4, ... up to 1,024 ranks. `hosts`: the requested number of hosts, or 0.
PlanResult make_plan_result(const Prediction& prediction, const Cluster& cluster, const Workload& workload,
                            const std::vector<std::size_t>& batches, const PlannedTokens& tokens,
                            std::size_t hosts);

// Returns the index of the last rate that is at least a quarter higher than the previous one. Each rate is
// for twice as many ranks as the previous one. Returns 0 for a single rate.
std::size_t last_worthwhile(const std::vector<double>& rates);

}  // namespace tp
