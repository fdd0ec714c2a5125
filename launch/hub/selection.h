// Which files of a repository the runtime needs.
#pragma once

#include "launch/hub/hub_file.h"
#include "launch/hub/hub_name.h"

#include <functional>
#include <string>
#include <vector>

namespace tp {

struct Selection {
  std::vector<HubFile> files;  // in the order in which to fetch them: small ones first
  std::string model;           // the path of the GGUF file; empty for the folder
};

// The safetensors checkpoint of the repository's top folder with its configuration and tokenizer; where there
// is none or `name` has a file, a GGUF model. `read` gives a file's content, of the index of safetensors
// files. Throws DownloadError if the repository has nothing that the runtime reads, or if it is not clear
// what is meant.
Selection select_files(const HubName& name, const HubListing& listing,
                       const std::function<std::string(const HubFile&)>& read);

}  // namespace tp
