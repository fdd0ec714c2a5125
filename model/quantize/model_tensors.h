#pragma once

#include "model/config/spec.h"
#include "model/weights/source/weight_source.h"

#include <string>
#include <vector>

namespace tp {

// The tensors of a checkpoint that belong to the model.
struct ModelTensor {
  std::string name;
  MatrixShape shape;  // as stored; a vector is one row
};

// All tensors that the model's layers request, from the embedding to the LM head. Throws CheckpointError or
// ConfigError if a tensor is missing or has another shape, or the model would not use a tensor of a block.
std::vector<ModelTensor> model_tensors(const ModelSpec& spec, const WeightSource& source);

}  // namespace tp
