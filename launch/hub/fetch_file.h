#pragma once

#include "launch/hub/hub_client.h"
#include "launch/hub/partial_file.h"

#include <cstdint>
#include <functional>
#include <string>

namespace tp {

// Completes the partial file and checks it. Uses ranges if the server supports them. Continues broken
// transfers. Throws DownloadError. The partial file is then kept for another attempt, unless its content was
// wrong. Calls `on_bytes` with the partial file's size.
void fetch_file(HubClient& client, const HubPurpose& purpose, const std::string& url, const HubFile& file,
                PartialFile& partial, const std::function<void(std::uint64_t)>& on_bytes);

}  // namespace tp
