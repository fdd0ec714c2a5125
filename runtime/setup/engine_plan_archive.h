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
  archive& plan.options& plan.config& plan.cache_blocks& plan.ranks& plan.overlaps& plan.divides_tables& plan
      .next_token& plan.host_of& plan.cache_owners& plan.not_shared_because;
}

}  // namespace boost::serialization
