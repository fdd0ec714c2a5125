// Which web pages may use a server, and the headers that tell browsers so (CORS).
#pragma once

#include "runtime/http/http_message.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tp {

class Origins {
 public:
  // `allowed`: origins of web pages ("https://chat.example.com"), besides the server's own and localhost's;
  // "*": all.
  explicit Origins(std::vector<std::string> allowed) : allowed_(std::move(allowed)) {}

  // A request that no web page sends has no origin, and is allowed.
  bool allow(const HttpRequest& request) const;
  // The headers that let a web page of an allowed origin read the response.
  HttpHeaders headers(const HttpRequest& request) const;
  // Further headers of the answer to a browser that asks whether a page may send a request (OPTIONS).
  // `methods`: "POST, OPTIONS".
  HttpHeaders preflight_headers(const HttpRequest& request, const std::string& methods) const;

 private:
  std::vector<std::string> allowed_;
};

// "node1:8080" -> "node1", "[::1]:8080" -> "::1"; in lower case.
std::string without_port(std::string_view host);

// Whether a name or an address is this machine's, without a port.
bool is_local(std::string_view host);

// Whether a list has a name, which is in lower case, or "*".
bool lists(const std::vector<std::string>& list, std::string_view name);

}  // namespace tp
