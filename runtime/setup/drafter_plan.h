// Plans a trained drafter, which reads the residual streams of its target.
#pragma once

#include "model/layers/vocab_tables.h"
#include "runtime/setup/engine_setup.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace tp {

inline bool is_drafter(const EnginePlan& plan) { return plan.config.drafter.kind != DrafterKind::none; }

// Throws ConfigError unless the drafter can read the target's streams and draft its tokens.
void require_fits(const EnginePlan& drafter, const EnginePlan& target);

// The drafter's weights, with the tables of `plan.target` that the drafter lacks. Throws CheckpointError, and
// ConfigError if the target's tables are not enough to use them.
std::unique_ptr<WeightSource> open_drafter(const EnginePlan& plan);
// Which tables the drafter has from its target.
SameTables tables_of_target(const EnginePlan& drafter);

// The streams of the target that the drafter reads, as numbers of layers before them.
std::vector<std::size_t> captured_places(const EnginePlan& drafter);

}  // namespace tp
