// File names of GGUF models in several parts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace tp {

// "model-00001-of-00003.gguf"
struct GgufPartName {
  std::string stem;  // "model"
  std::size_t number = 0;
  std::size_t count = 0;

  // The name of another part of this model.
  std::string of(std::size_t other) const;
};

// Nothing if the name has another form. `name` may be a path; its folders are part of the stem.
std::optional<GgufPartName> parse_gguf_part_name(const std::string& name);

}  // namespace tp
