// The element types of safetensors files. The runtime reads three of them.
#pragma once

#include "tp/tensor.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace tp {

// An element type in a file.
struct StoredType {
  std::string_view name;       // name in the file's header
  std::size_t bits = 0;        // bits of one element
  std::optional<DType> dtype;  // empty if the runtime cannot read it

  bool operator==(const StoredType&) const = default;
};

// Includes types of tensors that no model reads, such as the I64 and BOOL buffers of some GPT-2 files:
// checking a file's layout requires the sizes of all tensors.
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

// The type with this name, or nullptr.
inline const StoredType* find_stored_type(std::string_view name) {
  for (const StoredType& type : kStoredTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

}  // namespace tp
