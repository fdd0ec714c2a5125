// The messages of a conversation, as OpenAI's API has them.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tp {

// The messages as chat templates expect them: `content` is a text, where it was a list of parts that are
// texts, and the role `developer` is `system`. Throws RequestError for what is no list of messages, and for
// parts that are no texts.
nlohmann::ordered_json read_messages(const nlohmann::ordered_json& messages);

}  // namespace tp
