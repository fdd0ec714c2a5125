// Conversations in files: a JSON object with a list of `messages`, and whatever else a chat template knows by
// name: `add_generation_prompt`, `tools`, ...
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Reads such an object; "-" is standard input. Members keep their order. Throws RequestError naming the file.
nlohmann::ordered_json read_messages_file(const std::string& path);

// Writes it. Throws RequestError naming the file.
void write_messages_file(const std::string& path, const nlohmann::ordered_json& conversation);

}  // namespace tp
