// The JSON files of fixtures.
#pragma once

#include "parallel/machine/file_text.h"
#include "tp/token_id.h"

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::reference {

// Reads a JSON file. Python writes the bare word Infinity into some published config.json files. It becomes
// null.
inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::string text = file_text(path);
  const std::string infinity = "Infinity";
  for (std::size_t place = 0; (place = text.find(infinity, place)) != text.npos;)
    text.replace(place, infinity.size(), "null");
  return nlohmann::json::parse(text);
}

inline std::vector<TokenId> read_ids(const std::filesystem::path& path) {
  return read_json(path).at("ids").get<std::vector<TokenId>>();
}

}  // namespace tp::reference
