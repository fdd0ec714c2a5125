// Compares the header of a GGUF file with the model that it describes.
#pragma once

#include "model/config/spec.h"

#include <cstddef>
#include <filesystem>
#include <string>

namespace tp {

// The largest window of any layer, in tokens; 0: no layer has one.
std::size_t largest_window(const ModelSpec& spec);

// Checks that a GGUF file's header describes this model, else throws ConfigError. Only windows may be
// missing, because the architecture "llama" has none; `misses_windows` reports missing windows.
struct HeaderCheck {
  bool misses_windows = false;
};
HeaderCheck check_header(const ModelSpec& spec, const std::string& model,
                         const std::filesystem::path& header);

}  // namespace tp
