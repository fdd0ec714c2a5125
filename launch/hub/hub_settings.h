// Settings of the Hugging Face Hub, from the same environment variables that its own tools read.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace tp {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT, without a slash at the end
  std::string token;  // HF_TOKEN, HUGGING_FACE_HUB_TOKEN, or the file of HF_TOKEN_PATH; may be empty
  std::chrono::seconds patience{30};  // HF_HUB_DOWNLOAD_TIMEOUT: a transfer that stalls this long is broken
};

// Throws DownloadError for impossible values, and if HF_HUB_OFFLINE forbids network use.
HubSettings hub_settings();

// Returns the folder of the local cache: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
// XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub. Empty without a home folder.
std::filesystem::path hub_cache();

}  // namespace tp
