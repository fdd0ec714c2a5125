// Predicts whether a model fits on a cluster, and how fast it runs there.
#pragma once

#include "parallel/exchange/placement.h"
#include "runtime/plan/cluster.h"
#include "runtime/plan/step_time.h"
#include "runtime/setup/engine_setup.h"
#include "runtime/setup/footprint.h"
#include "runtime/setup/memory_plan.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tp {

// Divides a model into stages one after the other, and each stage among ranks.
struct Division {
  std::size_t stages = 1;
  std::size_t ranks = 1;  // ranks per stage

  std::size_t all_ranks() const { return stages * ranks; }
  auto operator<=>(const Division&) const = default;
};

// The memory of the host that needs the most.
struct HostFit {
  MemoryNeed need{};             // need of the host's ranks
  std::uint64_t peak = 0;        // bytes, with the whole cache
  std::uint64_t cache = 0;       // bytes of the whole cache
  std::uint64_t tables = 0;      // hash tables in the page cache, beside the peak (MemoryNeed::tables)
  std::size_t cache_tokens = 0;  // tokens of all sequences that fit; 0: the model does not fit
  std::string refusal{};         // the engine's error if it does not fit
  bool has_whole_cache = false;  // whether all intended tokens fit
  bool divides_tables = false;   // whether hosts divide hash tables
};

// The load to predict.
struct Workload {
  std::size_t prompt = 512;   // tokens of a prompt whose prefill is timed
  std::size_t context = 512;  // tokens in the cache of each sequence that is decoded
};

class Prediction {
 public:
  // `plan`: from make_plan, for max_sequences sequences of max_length tokens. Its number of ranks is ignored.
  // A `split` applies to divisions into as many ranks as it has; the ranks' speeds are assumed to be
  // proportional to it. `plan`, `spec` and `source` must outlive this object.
  Prediction(const EnginePlan& plan, const ModelSpec& spec, const WeightSource& source,
             const Cluster& cluster, const Workload& workload)
      : plan_(plan), spec_(spec), source_(source), cluster_(cluster), workload_(workload) {}

  // Returns why the model cannot be divided like this, or nothing.
  std::optional<std::string> refusal(Division division) const;

  // Uses the engine's own check before it loads a model, and its choice whether hosts divide hash tables.
  HostFit memory(Division division) const;

  // The smallest number of hosts, with all their ranks, on which the model fits. Divides the model by heads,
  // or with `stages` into one stage per host. None if it fits on no number of hosts.
  std::optional<std::size_t> fewest_hosts(bool stages) const;

  // Seconds to compute a prompt.
  StepTime prefill(Division division) const;
  // Seconds until each of `batch` sequences gets a token; with stages, until all sequences have passed
  // through.
  StepTime decode(Division division, std::size_t batch) const;

  // Bytes of all layers' keys and values on all ranks, relative to a single rank. More than 1 if several
  // hosts, or several ranks that keep copies of their own, hold a KV head.
  double cache_copies(Division division) const;

 private:
  // The hosts and their ranks, with the memory that these need.
  struct RanksOnHosts {
    Placement placement;
    std::vector<RankMemory> ranks;
  };
  RanksOnHosts place(Division division, const EnginePlan& plan, const Footprint& footprint) const;
  HostFit fit(const EnginePlan& plan, const Footprint& footprint, const RanksOnHosts& all) const;

  using ShapeKey = std::pair<Division, std::size_t>;  // division and stage

  EnginePlan divided(Division division) const;
  // The shape of the stage's slowest rank, judged by its weights.
  const RankShape& slowest(Division division, std::size_t stage) const;
  StepTime stage_time(Division division, std::size_t stage, const StepLoad& load) const;
  StepTime all_stages(Division division, const StepLoad& load, std::size_t in_flight) const;
  std::vector<StepLoad> chunks() const;

  const EnginePlan& plan_;
  const ModelSpec& spec_;
  const WeightSource& source_;
  Cluster cluster_;
  Workload workload_;
  mutable std::map<ShapeKey, RankShape> shapes_;
};

}  // namespace tp
