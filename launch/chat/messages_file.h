// Conversations in files: a JSON object with a list of `messages`, and other variables of a chat template,
// such as `add_generation_prompt` or `tools`.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Reads a conversation. "-" is standard input. Members keep their order. Throws RequestError with the file's
// name.
nlohmann::ordered_json read_messages_file(const std::string& path);

// Writes a conversation. Throws RequestError with the file's name.
void write_messages_file(const std::string& path, const nlohmann::ordered_json& conversation);

}  // namespace tp
