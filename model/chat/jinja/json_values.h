// What a template is given, as values.
#pragma once

#include "model/chat/jinja/evaluator.h"
#include "model/chat/jinja/value.h"

#include <nlohmann/json_fwd.hpp>

namespace tp::jinja {

// All of these keep the order of members, and throw EvaluationError for whole numbers beyond 64 bits.

// What the model says: none of its texts are input.
Names own_variables(const nlohmann::ordered_json& variables, Heap& heap);

// What a request says: all of its texts are input, also the names of members. Only a message's `role` that is
// a word is not, because templates make control tokens of roles: '<|' + message.role + '|>'.
Names input_variables(const nlohmann::ordered_json& variables, Heap& heap);

}  // namespace tp::jinja
