#pragma once

#include "launch/hub/hub_client.h"
#include "launch/hub/partial_file.h"

#include <cstdint>
#include <functional>
#include <string>

namespace tp {

// Completes the partial file from where it ends, with ranges if the server has them, and checks it. Broken
// transfers are continued. Throws DownloadError; the partial file is then kept for another attempt, unless
// its content was wrong. `on_bytes` is told the partial file's size.
void fetch_file(HubClient& client, const HubPurpose& purpose, const std::string& url, const HubFile& file,
                PartialFile& partial, const std::function<void(std::uint64_t)>& on_bytes);

}  // namespace tp
