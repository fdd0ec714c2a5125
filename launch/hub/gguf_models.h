// The GGUF models among the files of a repository or folder.
#pragma once

#include <string>
#include <vector>

namespace tp {

struct GgufModel {
  std::vector<std::string> files;  // one, or all parts in order

  const std::string& name() const { return files.front(); }
};

// Every model once, by name. Files beside models – vision projectors (mmproj), importance matrices – are left
// out, and so are models of which a part is missing.
std::vector<GgufModel> gguf_models(const std::vector<std::string>& paths);

// Those that a user means by `wanted`: the path, the name without folders, or what is in the name between
// hyphens and dots in upper or lower case, such as the quantization "Q4_K_M"; all if it is empty. The first
// of these ways that fits any counts.
std::vector<GgufModel> matching(const std::vector<GgufModel>& models, const std::string& wanted);

}  // namespace tp
