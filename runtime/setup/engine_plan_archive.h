// Serialization of EnginePlan.
#pragma once

#include "model/config/config_archive.h"
#include "runtime/protocol/archive_types.h"
#include "runtime/setup/engine_setup.h"

#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>

namespace boost::serialization {

template <class Archive>
void serialize(Archive& archive, tp::EnginePlan& plan, unsigned /*version*/) {
  archive& plan.config& plan.model& plan.synthetic& plan.weights& plan.synthetic_blocks& plan.kv_type& plan
      .block_size& plan.cache_blocks& plan.prefill_chunk& plan.max_sequences& plan.max_length& plan
      .same_bits& plan.stages& plan.ranks& plan.pretends& plan.split& plan.wire& plan.favor_features& plan
      .unmask_cache& plan.overlaps& plan.next_token;
}

}  // namespace boost::serialization
