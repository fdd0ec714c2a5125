// A request's settings as JSON: members of batch lines, which output lines repeat.
#pragma once

#include "tp/request.h"

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Overrides the request's settings with the members of `fields`: "max_tokens", "temperature", ... Throws
// RequestError for an unknown member or a value of the wrong type.
void set_fields(const nlohmann::json& fields, Request& request);

// Whether a setting has this name.
bool is_field(const std::string& name);

// All settings of a request, in the format of set_fields.
nlohmann::json fields_of(const Request& request);

}  // namespace tp
