// The order of roles that a chat template accepts.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Renders messages. Returns nullopt if the template refuses the messages.
using OrderRendering = std::function<std::optional<std::string>(nlohmann::ordered_json messages)>;

// Rearranges messages so that a template accepts them. OpenAI's and Anthropic's APIs accept roles in any
// order. Templates refuse or drop some messages: all system messages, the second or later system messages,
// consecutive user messages, or a user message after a tool result. This function renders probe texts in the
// order of `messages`. Then it tries other orders until the template shows all system and user texts: it
// joins consecutive messages, moves system messages to the front or into user messages, and fills gaps with
// empty messages. Messages stay unchanged if no other order shows more of them, or if there are more than
// 10,000. The function does not notice if a template drops a text of the assistant or of a tool.
nlohmann::ordered_json in_accepted_order(nlohmann::ordered_json messages, const OrderRendering& render);

}  // namespace tp
