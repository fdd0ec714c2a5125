#include "launch/prompts.h"

#include "model/json_fields.h"
#include "tp/error.h"

#include <fstream>
#include <iostream>
#include <limits>

namespace tp {

std::vector<TokenId> token_ids_of(const nlohmann::json& value, const std::string& where) {
  const nlohmann::json* list = &value;
  if (value.is_object() && value.contains("ids")) list = &value.at("ids");
  require<RequestError>(list->is_array(),
                        "{}: expected a JSON list of token ids, or an object with `ids`, found {}", where,
                        list->type_name());
  std::vector<TokenId> ids;
  for (const nlohmann::json& id : *list) {
    require<RequestError>(id.is_number_integer() && id >= 0 && id <= std::numeric_limits<TokenId>::max(),
                          "{}: expected token ids (whole numbers from 0), found {} at place {}", where,
                          id.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), ids.size());
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

std::vector<TokenId> read_token_file(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  nlohmann::json parsed;
  try {
    parsed = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw_error<RequestError>("{}: expected a JSON list of token ids ({})", path.string(), error.what());
  }
  return token_ids_of(parsed, path.string());
}

std::string read_prompt_file(const std::filesystem::path& path) { return read_text_file(path); }

std::vector<nlohmann::json> read_json_lines(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    require<RequestError>(file.is_open(), "cannot open {}: check the path and its permissions", path);
  }
  std::istream& stream = path == "-" ? std::cin : file;
  std::vector<nlohmann::json> lines;
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      lines.push_back(nlohmann::json::parse(line));
    } catch (const nlohmann::json::exception& error) {
      throw_error<RequestError>("{}:{}: expected a JSON object ({})", path, number, error.what());
    }
    require<RequestError>(lines.back().is_object(),
                          "{}:{}: expected a JSON object such as {{\"prompt\": \"...\"}}", path, number);
  }
  require<RequestError>(!lines.empty(), "{}: no requests; expected one JSON object a line", path);
  return lines;
}

}  // namespace tp
