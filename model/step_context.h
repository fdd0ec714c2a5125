#pragma once

#include "model/batch.h"
#include "model/rope.h"
#include "model/workspace.h"

namespace tp {

// What every block needs of the step at hand.
struct StepContext {
  const Batch& batch;
  RopeAngles angles;
  Workspace& workspace;
};

}  // namespace tp
