// Copies parts of a GGUF file, for tests of files that differ in other parts.
#pragma once

#include "model/weights/gguf/gguf_files.h"
#include "tests/model/weights/gguf_builder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tp::test {

inline std::string bytes_in(const GgufFiles::Entry& entry) {
  const auto* const begin =
      reinterpret_cast<const char*>(entry.file.bytes().data()) + entry.tensor.bytes.begin;
  return {begin, entry.tensor.bytes.size()};
}

inline void copy_metadata(const GgufFiles& from, GgufBuilder& to) {
  for (const auto& [key, value] : from.metadata().values()) {
    const std::string bytes(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
    if (value.is_list)
      to.value(key, GgufKind::array, le(static_cast<std::uint32_t>(value.kind), value.count) + bytes);
    else
      to.value(key, value.kind, bytes);
  }
}

inline void copy_tensor(const GgufFiles::Entry& entry, GgufBuilder& to) {
  const std::vector<std::uint64_t> shape(entry.tensor.shape.begin(), entry.tensor.shape.end());
  to.tensor(entry.tensor.name, shape, entry.tensor.type.name, bytes_in(entry));
}

}  // namespace tp::test
