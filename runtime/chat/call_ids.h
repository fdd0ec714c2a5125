#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Which ids of calls a template takes. A conversation may have those of another model or server.
enum class CallIds : std::uint8_t {
  any,
  nine_characters,  // letters and digits: Mistral's templates refuse others
  named             // functions.NAME:INDEX, by which Kimi's templates name calls and results
};

// Writes ids of this kind in calls and in their results.
void write_call_ids(CallIds ids, nlohmann::ordered_json& messages);

}  // namespace tp
