// Edits of a file that only its bytes show.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>

namespace tp::test {

// Inverts the lowest bit of a byte, and keeps the file's size and modification time. `from_end`: 1 is the
// last byte.
inline void invert_bit(const std::filesystem::path& path, std::size_t from_end) {
  const std::filesystem::file_time_type time = std::filesystem::last_write_time(path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-static_cast<std::streamoff>(from_end), std::ios::end);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(-static_cast<std::streamoff>(from_end), std::ios::end);
  file.put(byte);
  file.close();
  std::filesystem::last_write_time(path, time);
}

}  // namespace tp::test
