// Selects the files of a repository that the runtime needs.
#pragma once

#include "launch/hub/hub_file.h"
#include "launch/hub/hub_name.h"

#include <functional>
#include <string>
#include <vector>

namespace tp {

struct Selection {
  std::vector<HubFile> files;  // in download order: small files first
  std::string model;           // the path of the GGUF file; empty for the folder
};

// Selects the safetensors checkpoint in the repository's top folder with its configuration and tokenizer. If
// there is none, or `name` has a file, selects a GGUF model. `read` returns the content of a file, such as
// the index of safetensors files. Throws DownloadError if the repository contains nothing that the runtime
// reads, or the choice is ambiguous.
Selection select_files(const HubName& name, const HubListing& listing,
                       const std::function<std::string(const HubFile&)>& read);

}  // namespace tp
