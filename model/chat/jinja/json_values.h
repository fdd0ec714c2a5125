// Converts a template's JSON variables to values.
#pragma once

#include "model/chat/jinja/evaluator.h"
#include "model/chat/jinja/value.h"

#include <nlohmann/json_fwd.hpp>

namespace tp::jinja {

// Both functions keep the order of members, convert integers above 63 bits to floats, and throw
// EvaluationError for values that are nested too deeply.

// The model's variables, whose texts are not input.
Names own_variables(const nlohmann::ordered_json& variables, Heap& heap);

// A request's variables, whose texts and member names are all input, with one exception: a message's `role`
// that is a single word, because templates make control tokens from roles: '<|' + message.role + '|>'.
Names input_variables(const nlohmann::ordered_json& variables, Heap& heap);

}  // namespace tp::jinja
