// The parts of HTTP that downloads and chats need. An interface, so that their logic can be tested without a
// network.
#pragma once

#include "launch/hub/download_error.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tp {

// A GET, or a POST of JSON.
struct OutgoingRequest {
  std::string url;
  std::string token;             // sent only to this URL's host; empty: none
  std::uint64_t first_byte = 0;  // more than 0: requests a range that begins here
  std::optional<std::string> json{};
  bool may_pause = false;  // a silent server is not a stalled transfer, because it may still be computing
};

// Status and header fields of a response.
struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> fields;  // names in lower case

  // Empty if there is none.
  std::string field(const std::string& name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string() : found->second;
  }
};

// Receives a response. If a callback returns false, exchange() returns as if the response had ended.
struct HttpReceiver {
  std::function<bool(const HttpHead&)> head;
  std::function<bool(std::string_view)> body;
  std::function<bool()> goes_on{};  // polled every 50 ms; may be empty
};

// A failed attempt to connect: the server may not exist at all.
class ConnectionError : public TransientError {
 public:
  using TransientError::TransientError;
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;

  // Doesn't follow redirects, because the caller decides which server receives a token. Throws
  // TransientError, or DownloadError for permanent errors, such as an invalid certificate.
  virtual void exchange(const OutgoingRequest& request, const HttpReceiver& receiver) = 0;
};

}  // namespace tp
