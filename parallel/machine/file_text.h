#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tp {

// The content of a small file; empty if it cannot be read.
inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace tp
