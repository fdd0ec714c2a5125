// The little of HTTP that a download needs, so that its logic can be tested without a network.
#pragma once

#include "launch/hub/download_error.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace tp {

// A GET.
struct HttpRequest {
  std::string url;
  std::string token;             // goes to this url's host; empty: none
  std::uint64_t first_byte = 0;  // of what is wanted: more than 0 asks for a range
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

// Where a response goes. What returns false wants no more: get() then returns as if the response had ended.
struct HttpReceiver {
  std::function<bool(const HttpHead&)> head;
  std::function<bool(std::string_view)> body;
};

// A connection that could not be made, as opposed to one that broke: nobody may be there at all.
class ConnectionError : public TransientError {
 public:
  using TransientError::TransientError;
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;

  // Does not follow redirects: who asks decides where a token may go. Throws TransientError, or DownloadError
  // for what will not change, such as a certificate that is not valid.
  virtual void get(const HttpRequest& request, const HttpReceiver& receiver) = 0;
};

}  // namespace tp
