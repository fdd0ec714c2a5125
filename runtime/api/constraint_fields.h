// A request's constraint as JSON: fields of batch lines, and members of the bodies of APIs.
#pragma once

#include "runtime/api/api_request.h"
#include "tp/constraint.h"

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// json_schema, json_object, regex, choice, grammar: of these a request has at most one. json_space belongs to
// the first two, and comes after them in the order of names.
const std::vector<std::string>& constraint_fields();

// Throws RequestError for a value of the wrong type.
void set_constraint_field(const std::string& name, const nlohmann::json& value,
                          std::optional<Constraint>& constraint);
// Null if the constraint is of another kind.
nlohmann::json constraint_field(const std::string& name, const std::optional<Constraint>& constraint);

// Throws RequestError if a request's settings have more than one constraint.
void require_one_constraint(const nlohmann::json& settings);

// Reads OpenAI's `response_format`, `guided_json` and the like as vLLM has them, `structured_outputs`, and
// `json_schema` and `grammar` as llama.cpp has them; false for other members. Throws RequestError for a value
// of the wrong type. The engine compiles the constraint later.
bool read_constraint_member(const std::string& name, const nlohmann::ordered_json& value,
                            ApiRequest& request);

}  // namespace tp
