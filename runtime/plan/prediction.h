// What a model would do on a cluster: whether it fits, and how fast it would be.
#pragma once

#include "runtime/plan/cluster.h"
#include "runtime/plan/step_time.h"
#include "runtime/setup/engine_setup.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tp {

// How ranks divide a model: stages one after the other, each over so many ranks.
struct Division {
  std::size_t stages = 1;
  std::size_t ranks = 1;  // of a stage

  std::size_t all_ranks() const { return stages * ranks; }
  auto operator<=>(const Division&) const = default;
};

// The memory of the host that needs most.
struct HostFit {
  MemoryNeed need{};             // of its ranks
  std::uint64_t peak = 0;        // bytes, with the whole cache
  std::uint64_t cache = 0;       // bytes of the whole cache
  std::size_t cache_tokens = 0;  // that there is room for, of all sequences; 0: it does not fit
  std::string refusal{};         // the engine's error if it does not fit
};

// What is asked of the model.
struct Workload {
  std::size_t prompt = 512;   // tokens of a prompt whose prefill is timed
  std::size_t context = 512;  // tokens in the cache of each sequence that is decoded
};

class Prediction {
 public:
  // `plan`: as the engine makes it, for max_sequences sequences of max_length tokens; its number of ranks
  // does not matter. A `split` applies to as many ranks as it has, whose speeds are taken to be in
  // proportion. All but the cluster must outlive it.
  Prediction(const EnginePlan& plan, const DecoderSpec& spec, const WeightSource& source,
             const Cluster& cluster, const Workload& workload)
      : plan_(plan), spec_(spec), source_(source), cluster_(cluster), workload_(workload) {}

  // Why the model cannot be divided like this, or nothing.
  std::optional<std::string> refusal(Division division) const;

  // By the engine's own check before it loads a model.
  HostFit memory(Division division) const;

  // The fewest hosts with all their ranks on which the model fits, divided by heads or (`stages`) into a
  // stage per host; none if it fits on no number of them.
  std::optional<std::size_t> fewest_hosts(bool stages) const;

  // Seconds in which a prompt is computed.
  StepTime prefill(Division division) const;
  // Seconds in which each of so many sequences gets a token. Of stages, the time until all have been through.
  StepTime decode(Division division, std::size_t batch) const;
  double prefill_rate(Division division) const;
  double decode_rate(Division division, std::size_t batch) const;

  // Bytes of the cache for a token on all ranks, divided by those on one: more than 1 where KV heads are held
  // by several ranks.
  double cache_copies(Division division) const;

 private:
  using ShapeKey = std::pair<Division, std::size_t>;  // and the stage

  EnginePlan divided(Division division) const;
  // Of the rank of the stage that reads most.
  const RankShape& slowest(Division division, std::size_t stage) const;
  StepTime stage_time(Division division, std::size_t stage, const StepLoad& load) const;
  StepTime all_stages(Division division, const StepLoad& load, std::size_t in_flight) const;
  std::vector<StepLoad> chunks() const;

  const EnginePlan& plan_;
  const DecoderSpec& spec_;
  const WeightSource& source_;
  Cluster cluster_;
  Workload workload_;
  mutable std::map<ShapeKey, RankShape> shapes_;
};

}  // namespace tp
