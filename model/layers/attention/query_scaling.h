// Scales queries by factors that grow with position.
#pragma once

#include "model/config/spec.h"
#include "tp/tensor.h"

#include <cstddef>
#include <optional>
#include <span>

namespace tp {

// Multiplies each row of `query`, [tokens, any size], by the factor for the row's position. positions:
// [tokens].
void scale_queries(const std::optional<QueryScalingSpec>& spec, std::span<const std::size_t> positions,
                   TensorView<float> query);

}  // namespace tp
