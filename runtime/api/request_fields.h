// A request's settings as JSON: what a line of a batch may say, and what a line of output repeats.
#pragma once

#include "tp/request.h"

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Replaces the request's settings by the members of `fields`: "max_tokens", "temperature", ... Throws
// RequestError for a member that is not known or has a value of the wrong type.
void set_fields(const nlohmann::json& fields, Request& request);

// All settings of a request, as set_fields takes them.
nlohmann::json fields_of(const Request& request);

}  // namespace tp
