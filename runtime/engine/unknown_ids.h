#pragma once

#include "tp/engine.h"

namespace tp {

// Removes what names no token of the vocabulary from eos_token_ids and from the defaults of generation, and
// adds it to unknown_token_ids.
void ignore_unknown_ids(EngineInfo& info);

}  // namespace tp
