// Files that users write, such as keys and configurations.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace tp {

// The content of a file of at most `max` bytes. `where`: its name for errors. Throws ConfigError if it cannot
// be read or is larger.
std::string small_file_text(const std::filesystem::path& file, const std::string& where, std::size_t max);

}  // namespace tp
