// The messages of a conversation, in the format of OpenAI's API.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Converts messages to what chat templates expect: joins a `content` that is a list of text parts into one
// text, and turns the role `developer` into `system`. Throws RequestError for anything but a list of
// messages, and for parts that are not text.
nlohmann::ordered_json read_messages(const nlohmann::ordered_json& messages);

}  // namespace tp
