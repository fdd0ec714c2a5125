#include "parallel/machine/storage_reads.h"

#include <fstream>
#include <string>

namespace tp {

std::optional<std::uint64_t> bytes_from_storage() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  std::uint64_t value = 0;
  while (counters >> name >> value) {
    if (name == "read_bytes:") return value;
  }
  return std::nullopt;
}

}  // namespace tp
