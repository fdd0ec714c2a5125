// Runs one rank's share of a model. Every rank has a worker, and all execute the same commands.
#pragma once

#include "runtime/protocol/command.h"
#include "runtime/protocol/outputs.h"
#include "runtime/setup/engine_setup.h"
#include "runtime/setup/footprint.h"
#include "runtime/step/pipeline.h"
#include "runtime/step/step_executor.h"
#include "runtime/step/step_statistics.h"
#include "tp/communicator.h"
#include "tp/engine.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace tp {

class DraftModel;

struct WorkerOptions {
  std::size_t threads = 1;               // threads of this rank
  std::size_t cache_tokens = 0;          // as in EngineOptions; rank 0's value applies
  std::filesystem::path packed_cache{};  // as in EngineOptions
  MemoryNeed beside{};                   // further memory that this rank is going to need
  bool cache_is_planned = false;         // plan.cache_blocks is, together with something else
  VocabTables others{};                  // tables of another worker with the same division, to be used here
};

class Worker {
 public:
  // Collective. Sets plan.cache_blocks according to the memory of all ranks, and loads this rank's slices of
  // the model. The plan must be equal on every rank, except for the model's path. Throws AgreedError.
  Worker(Communicator& comm, EnginePlan& plan, const WorkerOptions& options,
         const Engine::Progress& progress);
  ~Worker();

  // This rank's part of a draft model, which DraftForward runs from here on. If it reads states, those of the
  // model are kept for it. Collective; throws AgreedError.
  void add_draft(std::unique_ptr<DraftModel> draft);
  DraftModel* draft() { return draft_.get(); }
  // Sets another model's states for a model that reads them.
  void read_states(const HiddenStates& states, std::size_t own_rows) {
    executor_.read_states(states, own_rows);
  }

  // Without what only rank 0 knows.
  const EngineInfo& info() const { return info_; }

  // Tables that a multi-token prediction layer may share.
  VocabTables tables() const;

  // The stages that the ranks form.
  Pipeline& pipeline() { return pipeline_; }

  // Collective: every rank runs the same command. Only rank 0 has masks and gets outputs; with several stages
  // those of a Forward come later, by Pipeline::receive_results.
  Outputs run(const Command& command, const MaskSource& masks = {});

  // On rank 0 of a model that has one: what its head makes of a pooled hidden state.
  std::vector<float> sequence_head(std::vector<float> pooled) const;

  double wall_seconds() const { return statistics_.wall_seconds(); }
  TimeParts own_time() const { return statistics_.own_time(); }
  // Seconds of sums between hosts, since the statistics were reset.
  double wire_seconds() { return pipeline_.tensor().stats().wire.seconds; }

 private:
  struct Model;

  std::unique_ptr<Model> load(EnginePlan& plan, const WorkerOptions& options,
                              const Engine::Progress& progress);
  Outputs run_command(const Forward& forward, const MaskSource& masks);
  Outputs run_command(const DraftForward& command);
  Outputs run_command(const Report& command);
  Outputs run_command(const ResetStatistics& command);
  Outputs run_command(const MeasurePeakRates& command);
  Outputs run_command(const StartTrace& command);
  Outputs run_command(const GatherTrace& command);
  Outputs run_command(const Stop& command);

  std::vector<Result> run_stage(const Forward& forward, const MaskSource& masks);

  Communicator& comm_;
  Pipeline pipeline_;
  std::size_t vocab_size_;
  EngineInfo info_;
  std::unique_ptr<Model> model_;
  StepExecutor executor_;
  StepStatistics statistics_;
  std::optional<HiddenStates> states_;  // states that the draft model reads
  std::unique_ptr<DraftModel> draft_;   // null: none, or not on this rank
};

}  // namespace tp
