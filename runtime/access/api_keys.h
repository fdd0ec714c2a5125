// The keys that clients must send, and their names for logs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

struct ApiKey {
  std::string name{};  // the client; empty: unknown
  std::string key{};
};

using ApiKeys = std::vector<ApiKey>;

// Reads lines of the form name:key, or of a key alone, which contains no colon. Empty lines, and lines that
// begin with #, are ignored. A name may have several keys. `where`: the file, for errors, which never contain
// a key. Throws ConfigError.
ApiKeys parse_api_keys(std::string_view text, const std::string& where);
ApiKeys read_api_keys(const std::filesystem::path& file);

// The name of a key; nullopt if it is none of the keys. Takes a time that depends only on lengths.
std::optional<std::string> name_of_key(const ApiKeys& keys, std::string_view key);

// Compares in a time that depends only on the lengths.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace tp
