#include "launch/hub/description.h"

#include "launch/common/message.h"
#include "launch/hub/cached_model.h"
#include "launch/hub/curl_http.h"
#include "launch/hub/download.h"
#include "launch/hub/download_error.h"
#include "launch/hub/hub_listing.h"
#include "tp/internal/require.h"

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr const char* kConfig = "config.json";

// Old checkpoints of GPTQ and AWQ describe their weights in files of their own.
constexpr const char* kOthers[] = {"model.safetensors.index.json", "quantize_config.json",
                                   "quant_config.json"};

Selection select_description(const std::string& repository, const HubListing& listing) {
  const HubFile* const config = listing.find(kConfig);
  require<DownloadError>(
      config != nullptr,
      "cannot describe {0}: expected a repository with {1}, found none in it; if it has GGUF "
      "files, download one of them: tp-infer download {0}:FILE",
      repository, kConfig);
  Selection selection{.files = {*config}, .model = {}};
  for (const char* name : kOthers)
    if (const HubFile* const file = listing.find(name)) selection.files.push_back(*file);
  return selection;
}

}  // namespace

std::filesystem::path fetch_description(const std::string& repository) {
  const std::filesystem::path cache = hub_cache();
  if (const std::optional<std::filesystem::path> cached = find_cached_config(repository, cache))
    return *cached;
  const auto say = [](const std::string& line) { print_message("tp-infer: " + line); };
  require<DownloadError>(
      !cache.empty(),
      "cannot fetch {} of {}: expected a home folder for the cache, found no HOME; set HF_HOME", kConfig,
      repository);
  const HubSettings settings = hub_settings();
  warn_of_shown_token(settings, say);
  CurlHttp http(settings.patience);
  HubClient client(
      http, settings, [](std::chrono::seconds pause) { std::this_thread::sleep_for(pause); }, say);
  const std::string revision = "main";
  const HubListing listing = list_repository(client, repository, revision);
  const std::unique_ptr<Destination> destination =
      cache_destination(cache, repository, revision, listing.commit);
  download(client, repository, listing.commit, select_description(repository, listing), *destination,
           {say, [](std::uint64_t, std::uint64_t) {}});
  return destination->folder();
}

}  // namespace tp
