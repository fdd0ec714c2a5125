// Prompts as users give them: a text, a file, token ids, or a batch of JSON lines.
#pragma once

#include "tp/token_id.h"

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

// A JSON list of token ids, or an object with one in `ids`. Throws CheckpointError or RequestError naming the
// file.
std::vector<TokenId> read_token_file(const std::filesystem::path& path);

// The ids in parsed JSON of that kind; `where` names it in errors.
std::vector<TokenId> token_ids_of(const nlohmann::json& value, const std::string& where);

// The file as it is. Throws CheckpointError.
std::string read_prompt_file(const std::filesystem::path& path);

// The lines of a JSONL file, or of standard input if the path is "-": objects, empty lines left out. Throws
// RequestError naming file and line.
std::vector<nlohmann::json> read_json_lines(const std::string& path);

}  // namespace tp
