// Loads one rank's part of a model, and allocates the memory that steps use.
#pragma once

#include "model/files/content_hash.h"
#include "model/layers/model.h"
#include "model/memory/kv_cache.h"
#include "model/memory/workspace.h"
#include "runtime/setup/engine_setup.h"
#include "runtime/setup/footprint.h"
#include "runtime/step/pipeline.h"
#include "tp/communicator.h"
#include "tp/engine.h"

#include <functional>

namespace tp {

struct WorkerOptions {
  MemoryNeed beside{};            // memory needed for other things, such as a draft model
  bool cache_is_planned = false;  // whether plan.cache_blocks is already final
  VocabTables others{};           // tables shared with another worker; see Model
};

struct LoadedModel {
  Model model;
  KvCache cache;
  Workspace workspace;
  EngineInfo info{};  // fields that only rank 0 knows are not set
  ContentHash
      identity{};  // hash of the model's files; empty without a store and without copies on other hosts
};

// Collective. Sets plan.cache_blocks to fit the memory of all ranks, and loads this rank's slices of the
// model. Except for the options that each rank sets for itself, the plan must be the same on every rank.
// `progress` is called with the share that is loaded. Throws AgreedError.
LoadedModel load_model(Communicator& comm, Pipeline& pipeline, EnginePlan& plan, const WorkerOptions& options,
                       const std::function<void(double)>& progress);

}  // namespace tp
