// Reads config.json's rope_scaling.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/files/json_node.h"

#include <cstddef>
#include <string>

namespace tp {

// Fields of a model's config on which the scaling depends.
struct RopeContext {
  std::size_t rotary_dim = 0;
  std::size_t max_position_embeddings = 0;
  std::size_t original_max_position_embeddings = 0;  // used if rope_scaling omits it
};

// Throws ConfigError if the kind of scaling is not supported or a value is invalid; `where` names the file.
RopeScaling parse_rope_scaling(const JsonNode& fields, const RopeContext& context, const std::string& where);

// Applies alpha of the type "dynamic" to rope_theta; other types do not change it. Throws ConfigError.
double scaled_theta(const JsonNode& fields, double theta, const RopeContext& context,
                    const std::string& where);

}  // namespace tp
