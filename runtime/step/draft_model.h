// A draft model, a trained drafter, or the model's own multi-token prediction layer, on all ranks or only on
// the first rank.
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

struct DraftPlan {
  EnginePlan plan;
  bool on_all_ranks = false;
  SameTables same{};  // tables that the multi-token prediction layer or drafter shares with the model
};

// Returns rank 0's plan, or nullopt if the options name no draft model and the multi-token prediction layer
// is missing or disabled. `target`: the plan of the model that verifies the drafts. Collective; throws
// AgreedError, for example if the draft model cannot draft for the target.
std::optional<DraftPlan> agree_on_draft(Communicator& comm, const EngineOptions& options,
                                        const EngineHooks& hooks, const EnginePlan& target);

// The memory that this rank needs for the draft model, with a cache for as many tokens as the target's.
// Throws the same errors as Model's constructor.
MemoryNeed draft_need(const Communicator& comm, const DraftPlan& draft, const EnginePlan& target);

class DraftModel {
 public:
  // `ranks`: the ranks of `comm` that run the draft model. `others`: the target's tables that the draft model
  // shares. Collective over `ranks`; throws AgreedError.
  DraftModel(const Communicator& comm, const std::vector<std::size_t>& ranks, EnginePlan plan,
             const VocabTables& others);

  Worker& worker() { return worker_; }
  // How many of the target's hidden states to keep for this draft model; 0 if it reads none.
  std::size_t kept_states() const;
  std::size_t size_of_kept_state() const;
  // The target's residual streams that a drafter reads (Model::capture). Empty: it reads final hidden states.
  std::vector<std::size_t> captured_places() const;
  void read_states(const HiddenStates& states) {
    worker_.read_states(states, plan_.options.max_sequences,
                        static_cast<std::size_t>(worker_.info().state_size));
  }
  DraftModelLimits limits() const;
  DraftInfo info() const;

 private:
  Communicator comm_;  // a communicator of its own, so its sums don't mix with the target's
  EnginePlan plan_;
  VocabTables others_;
  Worker worker_;
};

// Loads the draft model. Call it after the target has been loaded. `tables`: the target's tables. Returns
// null on ranks that do not run the draft model. Collective; throws AgreedError.
std::unique_ptr<DraftModel> load_draft(Communicator& comm, const DraftPlan& draft, const EnginePlan& target,
                                       const VocabTables& tables);

}  // namespace tp
