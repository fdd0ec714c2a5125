// A request's constraint as JSON: fields of batch lines, and members of API bodies.
#pragma once

#include "runtime/api/api_request.h"
#include "tp/constraint.h"

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// Names of the constraint fields: json_schema, json_object, regex, choice, grammar, of which a request has at
// most one, and json_space. json_space belongs to json_schema and json_object, and sorts after them.
const std::vector<std::string>& constraint_fields();

// Throws RequestError for a value of the wrong type.
void set_constraint_field(const std::string& name, const nlohmann::json& value,
                          std::optional<Constraint>& constraint);
// Null if the constraint is of a different kind.
nlohmann::json constraint_field(const std::string& name, const std::optional<Constraint>& constraint);

// Throws RequestError if a request's settings have more than one constraint.
void require_one_constraint(const nlohmann::json& settings);

// Reads OpenAI's `response_format`, vLLM's `structured_outputs` and `guided_json` and its variants, and
// llama.cpp's `json_schema` and `grammar`. Returns false for other members. Throws RequestError for a value
// of the wrong type. The engine compiles the constraint later.
bool read_constraint_member(const std::string& name, const nlohmann::ordered_json& value,
                            ApiRequest& request);

}  // namespace tp
