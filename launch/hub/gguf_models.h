// The GGUF models among the files of a repository or folder.
#pragma once

#include <string>
#include <vector>

namespace tp {

struct GgufModel {
  std::vector<std::string> files;  // one file, or all parts in order

  const std::string& name() const { return files.front(); }
};

// Returns every model once, by name. Leaves out files that are not models – vision projectors (mmproj),
// importance matrices – and models with missing parts.
std::vector<GgufModel> gguf_models(const std::vector<std::string>& paths);

// Returns the models that match `wanted`: a path, a name without folders, or a part of the name between
// hyphens and dots in upper or lower case, such as the quantization "Q4_K_M". An empty text matches all
// models. Only the first of these rules that matches any model counts.
std::vector<GgufModel> matching(const std::vector<GgufModel>& models, const std::string& wanted);

}  // namespace tp
