// Reads config.json's fields of RoPE.
#pragma once

#include "model/config/checkpoint_config.h"
#include "model/config/family.h"
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

// Reads the base, the rotated part of a head and the scaling, for all layers or for each layer. `config`
// contains the family's defaults and the sizes. Throws ConfigError for invalid values; `where` names the
// file.
void read_rope(const JsonNode& fields, const Family& family, const std::string& where,
               CheckpointConfig& config);

}  // namespace tp
