// Describes a model without loading it, for `inspect` and `plan`.
#pragma once

#include "model/weights/source/weight_source.h"
#include "model/weights/synthetic/configured_weights.h"
#include "runtime/setup/engine_setup.h"
#include "tp/engine.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace tp {

// Contents of the weights' files.
struct StoredWeights {
  std::size_t bytes = 0;
  std::vector<TypeUse> types;
  std::size_t next_token_tensors = 0;  // tensors of multi-token prediction layers
};

class DescribedModel {
 public:
  // For engines with these options on `ranks` ranks. `options.model` is a path from find_model. Throws
  // ConfigError or CheckpointError.
  DescribedModel(const EngineOptions& options, std::size_t ranks);

  const EnginePlan& plan() const { return plan_; }
  const ModelSpec& spec() const { return spec_; }
  // Nothing if config.json is alone, or files of the weights are missing.
  const std::optional<StoredWeights>& stored() const { return stored_; }
  // The checkpoint's weights if all of its types can be read. Otherwise weights as config.json describes
  // them.
  const WeightSource& weights() const;
  // The type that config.json gives for absent weights: "AWQ int4, groups of 128", or "bf16".
  std::string described_type() const;
  // The in-memory type of most weights.
  WeightType usual_type() const { return usual_weight_type(plan_, weights()); }

 private:
  EnginePlan plan_;
  ModelSpec spec_;
  std::unique_ptr<WeightSource> source_;
  std::optional<StoredWeights> stored_;
  ConfiguredWeights configured_;
};

}  // namespace tp
