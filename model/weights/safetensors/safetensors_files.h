// Finds the files of a directory that contain a model's weights.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The safetensors files of a checkpoint.
struct SafetensorsFiles {
  std::vector<std::string> names;              // without the directory; sorted, distinct, at least one
  std::map<std::string, std::string> file_of;  // tensor to file name, from the index; empty without an index
};

// The files that an index names. `text`: contents of the index; errors call it `name`. Throws CheckpointError
// if it is invalid or names files outside its directory.
SafetensorsFiles parse_safetensors_index(std::string_view text, const std::string& name);

// Whether a directory contains `model.safetensors` or its index.
bool holds_safetensors(const std::filesystem::path& directory);

// Whether a directory contains all of these files, instead of Git LFS pointers to them, which a clone without
// Git LFS has.
bool holds_all_safetensors(const std::filesystem::path& directory);

// Finds `model.safetensors`, or the files that `model.safetensors.index.json` names, even if these are
// missing. Throws CheckpointError if there is neither, with advice that depends on the directory's other
// files, or if the index is invalid or names files outside the directory.
SafetensorsFiles find_safetensors_files(const std::filesystem::path& directory);

}  // namespace tp
