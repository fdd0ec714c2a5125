#pragma once

#include "model/config/spec.h"
#include "model/weights/source/weight_source.h"

#include <string>
#include <vector>

namespace tp {

// The tensors of a checkpoint that a model consists of.
struct ModelTensor {
  std::string name;
  MatrixShape shape;  // as stored; a vector is one row
};

// All of them, from the embedding to the LM head: what the model's own layers ask for. Throws CheckpointError
// or ConfigError if one is missing or has another shape, or a block has one that the model would not use.
std::vector<ModelTensor> model_tensors(const DecoderSpec& spec, const WeightSource& source);

}  // namespace tp
