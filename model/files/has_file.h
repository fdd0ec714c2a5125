// Finds the files of a model's folder.
#pragma once

#include <filesystem>

namespace tp {

// Whether `path` is a file or folder. Throws CheckpointError for a pipe, and for a link without its target,
// which occurs in partial copies of a Hugging Face cache: the file would seem never to have existed.
bool has_file(const std::filesystem::path& path);

// Throws CheckpointError, naming what the folder is, if it contains no model by itself, but an adapter, a
// pipeline of several models, or weights in their authors' format.
void refuse_other_folders(const std::filesystem::path& folder);

}  // namespace tp
