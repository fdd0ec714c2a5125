#pragma once

#include <filesystem>
#include <string>

namespace tp {

// Fetches the files that describe a model without its weights, config.json and the index of the weights, into
// the cache, unless config.json is there. `repository`: "ORG/NAME". Returns their folder. Throws
// DownloadError.
std::filesystem::path fetch_description(const std::string& repository);

}  // namespace tp
