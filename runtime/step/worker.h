// Runs one rank's share of a model. Every rank has a worker, and all workers execute the same commands.
#pragma once

#include "runtime/protocol/command.h"
#include "runtime/protocol/outputs.h"
#include "runtime/setup/engine_setup.h"
#include "runtime/step/model_loading.h"
#include "runtime/step/pipeline.h"
#include "runtime/step/step_executor.h"
#include "runtime/step/step_statistics.h"
#include "runtime/store/files/rank_store.h"
#include "tp/communicator.h"
#include "tp/engine.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace tp {

class DraftModel;

class Worker {
 public:
  // Collective. Loads this rank's part of the model: see load_model. Throws AgreedError.
  Worker(Communicator& comm, EnginePlan& plan, const WorkerOptions& options,
         const std::function<void(double)>& progress);
  ~Worker();

  // Adds this rank's part of the draft model, which DraftForward commands run. `draft` may be null. If the
  // draft model reads this model's hidden states, they are kept from now on. Collective; throws AgreedError.
  void add_draft(std::unique_ptr<DraftModel> draft);
  DraftModel* draft() { return draft_.get(); }
  // See StepExecutor::read_states.
  void read_states(const HiddenStates& states, std::size_t own_rows, std::size_t own_size) {
    executor_.read_states(states, own_rows, own_size);
  }

  // Whether a state of this model is kept for the draft model.
  bool has_state(SequenceId sequence, std::size_t position) const {
    return states_ && states_->find(sequence, position) != nullptr;
  }

  // Fields that only rank 0 knows are not set.
  const EngineInfo& info() const { return loaded_.info; }

  // Opens this rank's part of the store of prompts. `fingerprint`: store_fingerprint. Collective; throws
  // AgreedError.
  void open_store(const EnginePlan& plan, const Sha256Digest& fingerprint);
  // Rank 0: the files that have appeared in the store since the last call.
  std::vector<RunHeader> take_stored() { return store_ ? store_->take_found() : std::vector<RunHeader>(); }
  // Hashes everything that determines the bits of this model's keys, values and states. Collective; throws
  // AgreedError.
  Sha256Digest store_fingerprint(const EnginePlan& plan);

  // Tables that a multi-token prediction layer may share.
  VocabTables tables() const;

  Pipeline& pipeline() { return pipeline_; }

  // Collective: every rank runs the same command. Only rank 0 gets outputs. With several stages, the outputs
  // of a Forward arrive later, in Pipeline::receive_results.
  Outputs run(const Command& command);

  // Rank 0: applies the model's sequence head to a pooled hidden state. Throws ConfigError if the model has
  // none.
  std::vector<float> sequence_head(std::vector<float> pooled) const;

  double wall_seconds() const { return statistics_.wall_seconds(); }
  TimeParts own_time() const { return statistics_.own_time(); }
  // Seconds spent on sums between hosts since the last reset.
  double wire_seconds() { return pipeline_.tensor().stats().wire.seconds; }

 private:
  Outputs run_command(const Forward& forward);
  Outputs run_command(const DraftForward& command);
  Outputs run_command(const Report& command);
  Outputs run_command(const ResetStatistics& command);
  Outputs run_command(const MeasurePeakRates& command);
  Outputs run_command(const StartTrace& command);
  Outputs run_command(const GatherTrace& command);
  Outputs run_command(const Stop& command);
  Outputs run_command(const StoreWork& command);

  std::vector<Result> run_stage(const Forward& forward);

  Communicator& comm_;
  Pipeline pipeline_;
  std::size_t vocab_size_;
  LoadedModel loaded_;
  StepExecutor executor_;
  StepStatistics statistics_;
  std::optional<HiddenStates> states_;  // hidden states that the draft model reads
  std::unique_ptr<DraftModel> draft_;   // null: none, or not on this rank
  std::unique_ptr<RankStore> store_;    // null: prompts are not stored
};

}  // namespace tp
