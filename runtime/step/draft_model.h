// A draft model, or the model's own layer that predicts the token after the next one: on all ranks of an
// engine, or on the first one alone.
#pragma once

#include "runtime/setup/engine_setup.h"
#include "runtime/setup/footprint.h"
#include "runtime/speculation/model_source.h"
#include "runtime/step/worker.h"
#include "tp/communicator.h"
#include "tp/engine.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace tp {

// The plan that all ranks agree on.
struct DraftPlan {
  EnginePlan plan;
  bool on_all_ranks = false;
  SameTables same{};  // tables that the model and its own layer share on this rank
};

// Rank 0's plan; nothing if the options name no draft model, and the checkpoint's own layer is not wanted or
// not there. `target`: the plan of the model that it guesses for. Collective; throws AgreedError if it cannot
// guess for that.
std::optional<DraftPlan> agree_on_draft(Communicator& comm, const EngineOptions& options,
                                        const EnginePlan& target);

// The memory that this rank needs for it, with as much cache as there is for `target`. Throws like Decoder's
// constructor.
MemoryNeed draft_need(const Communicator& comm, const DraftPlan& draft, const EnginePlan& target);

class DraftModel {
 public:
  // Collective over these ranks of `comm`, on which it runs. `others`: tables of the model that it uses.
  // Throws AgreedError.
  DraftModel(const Communicator& comm, const std::vector<std::size_t>& ranks, EnginePlan plan,
             std::size_t threads, const VocabTables& others);

  Worker& worker() { return worker_; }
  // How many states of the model are kept for it; 0: it reads none.
  std::size_t kept_states() const;
  void read_states(const HiddenStates& states) { worker_.read_states(states, plan_.max_sequences); }
  DraftModelLimits limits() const;
  DraftInfo info() const;

 private:
  Communicator comm_;  // its own, so that nobody takes its sums for the model's
  EnginePlan plan_;
  VocabTables others_;
  Worker worker_;
};

// Loads it; `target` has been loaded, and has these tables. Null on ranks that do not run it. Collective;
// throws AgreedError.
std::unique_ptr<DraftModel> load_draft(Communicator& comm, const DraftPlan& draft, const EnginePlan& target,
                                       std::size_t threads, const VocabTables& tables);

}  // namespace tp
