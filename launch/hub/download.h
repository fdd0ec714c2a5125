#pragma once

#include "launch/hub/destination.h"
#include "launch/hub/hub_client.h"
#include "launch/hub/selection.h"

#include <cstdint>
#include <functional>
#include <string>

namespace tp {

// Callbacks for the user interface. Bytes include those of earlier downloads.
struct DownloadEvents {
  std::function<void(const std::string& line)> line;  // "fetching model.safetensors (2.0 GiB)"
  std::function<void(std::uint64_t bytes, std::uint64_t total)> progress;
};

struct DownloadResult {
  std::uint64_t fetched_files = 0;
  std::uint64_t fetched_bytes = 0;
};

// Reads a small file of a repository into memory and checks it. Throws DownloadError.
std::string read_hub_file(HubClient& client, const std::string& repository, const std::string& commit,
                          const HubFile& file);

// Fetches missing files, after checking the free space. Throws DownloadError.
DownloadResult download(HubClient& client, const std::string& repository, const std::string& commit,
                        const Selection& selection, const Destination& destination,
                        const DownloadEvents& events);

}  // namespace tp
