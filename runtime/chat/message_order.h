// The order of roles that a chat template accepts.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// A template's text for messages; nothing if the template refuses them.
using OrderRendering = std::function<std::optional<std::string>(nlohmann::ordered_json messages)>;

// OpenAI's and Anthropic's APIs accept roles in any order. Templates refuse or drop some messages: every
// system message, a second or a later one, two messages of the user in a row, a message of the user after a
// tool's result. This function renders texts of its own in the order of `messages`, and tries other orders
// until the template shows all texts of the system and the user: messages in a row become one, system
// messages go to the front or to the user, and empty messages fill gaps. The messages stay as they are if no
// other order shows more of them, or if they are more than 10,000. The function does not notice that a
// template drops a text of the assistant or of a tool.
nlohmann::ordered_json in_accepted_order(nlohmann::ordered_json messages, const OrderRendering& render);

}  // namespace tp
