// Which files of a directory hold a model's weights.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tp {

// The safetensors files of a checkpoint.
struct SafetensorsFiles {
  std::vector<std::string> names;  // without the directory; sorted, distinct, at least one
  std::map<std::string, std::string>
      file_of;  // tensor to file name, as the index says; empty without an index
};

// Whether a directory has `model.safetensors` or its index.
bool holds_safetensors(const std::filesystem::path& directory);

// Finds `model.safetensors`, or the files that `model.safetensors.index.json` names. The latter may be
// missing. Throws CheckpointError if there is neither, with advice that depends on what the directory has
// instead, or if the index is not valid or names files outside the directory.
SafetensorsFiles find_safetensors_files(const std::filesystem::path& directory);

}  // namespace tp
