// Requests to the Hub: follows redirects, protects the token, and explains rejections.
#pragma once

#include "launch/hub/http.h"
#include "launch/hub/hub_settings.h"
#include "launch/hub/retries.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace tp {

// The purpose of a request, for its errors.
struct HubPurpose {
  std::string what;        // "cannot fetch org/name/config.json"
  std::string repository;  // "org/name"
};

class HubClient {
 public:
  HubClient(HttpClient& http, HubSettings settings, Retries::Sleep sleep, Retries::Notify notify);

  // `path` begins with a slash and is escaped.
  std::string url(const std::string& path) const { return settings_.endpoint + path; }

  Retries retries(const HubPurpose& purpose) const { return {purpose.what, sleep_, notify_}; }

  // Attempts once to get `url`, through redirects. Sends the token only to the endpoint's server, because
  // files come from other hosts. The receiver sees only responses with content: status 200, or for
  // `first_byte` > 0 also 206 and 416. Throws TransientError, or DownloadError with an explanation of the
  // rejection.
  void get(const HubPurpose& purpose, const std::string& url, std::uint64_t first_byte,
           const HttpReceiver& receiver);

  // Fetches a document of at most `limit` bytes, with the attempts of Retries.
  struct Document {
    HttpHead head;
    std::string text;
  };
  Document read(const HubPurpose& purpose, const std::string& url, std::size_t limit);

 private:
  // Returns the target of a redirect, or an empty text if the receiver got the response.
  std::string get_once(const HubPurpose& purpose, const std::string& url, std::uint64_t first_byte,
                       const HttpReceiver& receiver);
  [[noreturn]] void refuse(const HubPurpose& purpose, const std::string& url, const HttpHead& head) const;

  HttpClient& http_;
  HubSettings settings_;
  std::string origin_;  // the endpoint's scheme, host and port
  Retries::Sleep sleep_;
  Retries::Notify notify_;
  bool was_reached_ = false;
};

// Tells `notify` if the token goes to the endpoint unencrypted. Who sets HF_ENDPOINT to such an address wants
// it so, but may not think of the token.
void warn_of_shown_token(const HubSettings& settings, const Retries::Notify& notify);

}  // namespace tp
