// Models in the local cache that Hugging Face's tools share.
#pragma once

#include "launch/hub/hub_name.h"

#include <filesystem>
#include <optional>
#include <string>

namespace tp {

struct CachedModel {
  std::optional<std::filesystem::path> path;  // a folder or a GGUF file
  std::string reason;  // why there is none: "the cache has only a part of it: ... is missing"
};

// The model at the commit that `main` was when it was last downloaded; without that, at the only commit in
// the cache. All its weights must be there. Uses no network.
CachedModel find_cached_model(const HubName& name, const std::filesystem::path& cache);

// The folder of the same commit if it has a config.json, although weights may be missing.
std::optional<std::filesystem::path> find_cached_config(const std::string& repository,
                                                        const std::filesystem::path& cache);

}  // namespace tp
