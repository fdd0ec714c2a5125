#pragma once

#include "tp/engine.h"

namespace tp {

// Removes ids that are not in the vocabulary from eos_token_ids and from the defaults of generation, and adds
// them to unknown_token_ids.
void ignore_unknown_ids(EngineInfo& info);

}  // namespace tp
