// Looking for the files of a model's folder.
#pragma once

#include <filesystem>

namespace tp {

// Whether there is something under that path. Throws CheckpointError for a link whose target is gone, as in a
// cache of Hugging Face's that was copied in part: the file would seem never to have been there.
bool has_file(const std::filesystem::path& path);

// Throws CheckpointError if a folder holds no model by itself, but an adapter, a pipeline of several models,
// or weights in the format of their authors. It says what the folder is.
void refuse_other_folders(const std::filesystem::path& folder);

}  // namespace tp
