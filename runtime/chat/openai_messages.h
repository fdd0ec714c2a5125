// The messages of a conversation, in the format of OpenAI's API.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Converts messages to the form that chat templates expect: joins a `content` that is a list of text parts,
// and changes the role `developer` to `system`. Throws RequestError if the value is not a list of messages,
// or a part is not text.
nlohmann::ordered_json read_messages(const nlohmann::ordered_json& messages);

}  // namespace tp
