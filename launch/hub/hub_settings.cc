#include "launch/hub/hub_settings.h"

#include "launch/hub/download_error.h"
#include "model/files/blanks.h"
#include "model/files/parse_number.h"
#include "model/files/regular_file.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <set>

namespace tp {
namespace {

namespace fs = std::filesystem;

// Returns a variable. An empty one counts as unset, because scripts may pass on missing variables as empty.
std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string first_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::string value = variable(name); !value.empty()) return value;
  return {};
}

// Expands a tilde like Hugging Face's library does, because the shell doesn't expand it within quotes.
fs::path path_of(const std::string& text) {
  return text.starts_with("~/") ? fs::path(variable("HOME")) / text.substr(2) : fs::path(text);
}

// Returns the base folder of Hugging Face's tools, or an empty path if the environment names none.
fs::path hub_home() {
  if (const std::string home = variable("HF_HOME"); !home.empty()) return path_of(home);
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return path_of(cache) / "huggingface";
  const std::string home = variable("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache/huggingface";
}

// Returns the token that `hf auth login` stored.
std::string stored_token() {
  const std::string path = variable("HF_TOKEN_PATH");
  if (path.empty() && hub_home().empty()) return {};
  return RegularFile(path.empty() ? hub_home() / "token" : path_of(path)).text();
}

std::string find_token() {
  std::string token(without_blanks(first_of({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})));
  if (token.empty()) token = without_blanks(stored_token());
  // The token becomes a line of the request, in which a line break would begin another line. The error
  // doesn't quote the token.
  require<DownloadError>(
      std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > 0x20 && c < 0x7F; }),
      "cannot use the token for the Hugging Face Hub: expected printable characters without spaces, found "
      "other characters; "
      "check HF_TOKEN");
  return token;
}

std::string find_endpoint() {
  std::string endpoint = variable("HF_ENDPOINT");
  if (endpoint.empty()) return HubSettings{}.endpoint;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const bool has_scheme = endpoint.starts_with("https://") || endpoint.starts_with("http://");
  require<DownloadError>(has_scheme && endpoint.find_first_of(" ?#\\\r\n\t") == endpoint.npos,
                         "cannot use HF_ENDPOINT: expected an address such as https://huggingface.co, found "
                         "{}; correct it or unset it",
                         endpoint);
  return endpoint;
}

std::chrono::seconds find_patience() {
  const std::string text = variable("HF_HUB_DOWNLOAD_TIMEOUT");
  if (text.empty()) return HubSettings{}.patience;
  const int seconds = parse_number<int>(text).value_or(0);
  require<DownloadError>(
      seconds >= 1 && seconds <= 86400,
      "cannot use HF_HUB_DOWNLOAD_TIMEOUT: expected whole seconds from 1 to 86400, found {}; "
      "correct it or unset it",
      text);
  return std::chrono::seconds(seconds);
}

bool is_offline() {
  static const std::set<std::string> kTrue = {"1", "ON", "YES", "TRUE"};
  std::string value = variable("HF_HUB_OFFLINE");
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return kTrue.contains(value);
}

}  // namespace

HubSettings hub_settings() {
  require<DownloadError>(!is_offline(),
                         "cannot download: expected access to the network, found HF_HUB_OFFLINE={}; unset it",
                         variable("HF_HUB_OFFLINE"));
  return {.endpoint = find_endpoint(), .token = find_token(), .patience = find_patience()};
}

fs::path hub_cache() {
  if (const std::string cache = first_of({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}); !cache.empty())
    return path_of(cache);
  const fs::path home = hub_home();
  return home.empty() ? home : home / "hub";
}

}  // namespace tp
