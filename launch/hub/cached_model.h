// Models in the local cache that Hugging Face's tools share.
#pragma once

#include "launch/hub/hub_name.h"

#include <filesystem>
#include <optional>
#include <string>

namespace tp {

struct CachedModel {
  std::optional<std::filesystem::path> path;  // a folder or a GGUF file
  std::string reason;  // reason for a missing model: "the cache has only a part of it: ... is missing"
};

// Returns the model at the commit of the last download of `main`, or at the only commit in the cache. All its
// weights must exist. Doesn't use the network.
CachedModel find_cached_model(const HubName& name, const std::filesystem::path& cache);

// The folder of the same commit if it has a config.json, although weights may be missing.
std::optional<std::filesystem::path> find_cached_config(const std::string& repository,
                                                        const std::filesystem::path& cache);

}  // namespace tp
