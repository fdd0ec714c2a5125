// What a line of a batch may say about its own request.
#pragma once

#include "tp/request.h"

#include <nlohmann/json.hpp>

namespace tp {

// Replaces the request's settings by the members of `fields`: "max_tokens", "temperature", ... Throws
// RequestError for a member that is not known or has a value of the wrong type.
void set_fields(const nlohmann::json& fields, Request& request);

}  // namespace tp
