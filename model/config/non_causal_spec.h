// Decoders whose tokens also attend to later tokens, such as models that embed texts.
#pragma once

#include "model/config/spec.h"

namespace tp {

// Lets tokens attend to all positions, and within layers with a window in both directions. Throws ConfigError
// if a layer cannot do this.
void attend_to_all_positions(ModelSpec& spec);

}  // namespace tp
