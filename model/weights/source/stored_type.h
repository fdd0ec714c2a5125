// The element types of safetensors files, of which the runtime reads three.
#pragma once

#include "tp/tensor.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace tp {

// An element type that a file may hold.
struct StoredType {
  std::string_view name;       // as in the file's header
  std::size_t bits = 0;        // of one element
  std::optional<DType> dtype;  // empty if the runtime cannot read it

  bool operator==(const StoredType&) const = default;
};

// Checkpoints also hold tensors that no model reads, such as the I64 and BOOL buffers of some GPT-2 files.
// Their sizes must be known to check a file's layout.
inline constexpr std::array kStoredTypes = {
    StoredType{"F32", 32, DType::f32}, StoredType{"F16", 16, DType::f16}, StoredType{"BF16", 16, DType::bf16},
    StoredType{"BOOL", 8, {}},         StoredType{"U8", 8, {}},           StoredType{"I8", 8, {}},
    StoredType{"U16", 16, {}},         StoredType{"I16", 16, {}},         StoredType{"U32", 32, {}},
    StoredType{"I32", 32, {}},         StoredType{"U64", 64, {}},         StoredType{"I64", 64, {}},
    StoredType{"F64", 64, {}},         StoredType{"C64", 64, {}},         StoredType{"F8_E4M3", 8, {}},
    StoredType{"F8_E5M2", 8, {}},      StoredType{"F8_E8M0", 8, {}},      StoredType{"F8_E4M3FNUZ", 8, {}},
    StoredType{"F8_E5M2FNUZ", 8, {}},  StoredType{"F6_E2M3", 6, {}},      StoredType{"F6_E3M2", 6, {}},
    StoredType{"F4", 4, {}},
};

// The type of that name, or nullptr.
inline const StoredType* find_stored_type(std::string_view name) {
  for (const StoredType& type : kStoredTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

}  // namespace tp
