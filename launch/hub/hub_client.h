// Requests to the Hub: where its redirects lead, who may see the token, and what a refusal means.
#pragma once

#include "launch/hub/http.h"
#include "launch/hub/hub_settings.h"
#include "launch/hub/retries.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace tp {

// What a request is for, for its errors.
struct HubPurpose {
  std::string what;        // "cannot fetch org/name/config.json"
  std::string repository;  // "org/name"
};

class HubClient {
 public:
  HubClient(HttpClient& http, HubSettings settings, Retries::Sleep sleep, Retries::Notify notify);

  // "https://huggingface.co" and a path that begins with a slash and is escaped.
  std::string url(const std::string& path) const { return settings_.endpoint + path; }

  Retries retries(const HubPurpose& purpose) const { return {purpose.what, sleep_, notify_}; }

  // One attempt to get `url`, through redirects. The token goes only to the server of the endpoint: files
  // come from other hosts, which must not see it. The receiver sees answers that have the content: status
  // 200, or if `first_byte` is more than 0, also 206 and 416. Throws TransientError, or DownloadError with an
  // explanation for refusals.
  void get(const HubPurpose& purpose, const std::string& url, std::uint64_t first_byte,
           const HttpReceiver& receiver);

  // A document of at most `limit` bytes, with as many attempts as Retries makes.
  struct Document {
    HttpHead head;
    std::string text;
  };
  Document read(const HubPurpose& purpose, const std::string& url, std::size_t limit);

 private:
  // Returns where the server redirects to; empty if the receiver has got the answer.
  std::string get_once(const HubPurpose& purpose, const std::string& url, std::uint64_t first_byte,
                       const HttpReceiver& receiver);
  [[noreturn]] void refuse(const HubPurpose& purpose, const std::string& url, const HttpHead& head) const;

  HttpClient& http_;
  HubSettings settings_;
  std::string origin_;  // of the endpoint
  Retries::Sleep sleep_;
  Retries::Notify notify_;
  bool was_reached_ = false;
};

// Tells `notify` if the token goes to the endpoint unencrypted. Who sets HF_ENDPOINT to such an address wants
// it so, but may not think of the token.
void warn_of_shown_token(const HubSettings& settings, const Retries::Notify& notify);

}  // namespace tp
