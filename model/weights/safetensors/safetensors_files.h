// Which files of a directory hold a model's weights.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The safetensors files of a checkpoint.
struct SafetensorsFiles {
  std::vector<std::string> names;  // without the directory; sorted, distinct, at least one
  std::map<std::string, std::string>
      file_of;  // tensor to file name, as the index says; empty without an index
};

// The files that the text of an index names. Throws CheckpointError, which calls it `name`, if it is not
// valid or names files outside its directory.
SafetensorsFiles parse_safetensors_index(std::string_view text, const std::string& name);

// Whether a directory has `model.safetensors` or its index.
bool holds_safetensors(const std::filesystem::path& directory);

// Finds `model.safetensors`, or the files that `model.safetensors.index.json` names. The latter may be
// missing. Throws CheckpointError if there is neither, with advice that depends on what the directory has
// instead, or if the index is not valid or names files outside the directory.
SafetensorsFiles find_safetensors_files(const std::filesystem::path& directory);

}  // namespace tp
