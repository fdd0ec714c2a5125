// rope_scaling of config.json.
#pragma once

#include "model/files/json_node.h"
#include "tp/model_config.h"

#include <cstddef>
#include <string>

namespace tp {

// What of a model's config the scaling depends on.
struct RopeContext {
  std::size_t rotary_dim = 0;
  std::size_t max_position_embeddings = 0;
  std::size_t original_max_position_embeddings = 0;  // where the scaling does not give it
};

// Throws ConfigError, naming the file `where`, if the scaling is of a kind that is not supported or cannot
// work.
RopeScaling parse_rope_scaling(const JsonNode& fields, const RopeContext& context, const std::string& where);

// rope_theta with what such a member makes of it: alpha of the type "dynamic". Throws ConfigError.
double scaled_theta(const JsonNode& fields, double theta, const RopeContext& context,
                    const std::string& where);

}  // namespace tp
