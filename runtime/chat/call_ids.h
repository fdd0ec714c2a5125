#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// The ids of calls that a template accepts. A conversation may contain ids of other models or servers.
enum class CallIds : std::uint8_t {
  any,
  nine_characters,  // letters and digits: Mistral's templates refuse other ids
  named             // functions.NAME:INDEX, Kimi's names of calls and results
};

// Converts the ids in calls and in their results to this kind.
void write_call_ids(CallIds ids, nlohmann::ordered_json& messages);

}  // namespace tp
