#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace tp::test {

// Bytes of mapped files that count as this process's memory.
inline std::size_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kilobytes = 0;
    if (word == "RssFile:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace tp::test
