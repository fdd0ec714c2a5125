// Who may use the server, and from which web pages.
#pragma once

#include "runtime/api/api_error.h"
#include "runtime/http/http_message.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

struct AccessRules {
  std::vector<std::string> api_keys{};  // one of these; none: nobody is asked for one
  // Host names under which the server is reached, besides localhost, this machine's name and addresses; "*":
  // any.
  std::vector<std::string> hosts{};
  // Web pages that may use it, "https://chat.example.com", besides its own and those of localhost; "*": all.
  std::vector<std::string> origins{};
};

class Access {
 public:
  explicit Access(AccessRules rules);

  // Why the request is refused, or nothing. `is_public`: no key is needed.
  //
  // Any web page that a user of this machine opens can send requests to a server on it. Other origins are
  // refused, and so are names that are not ours: a page can have its own name resolved to this machine.
  std::optional<ApiError> refusal(const HttpRequest& request, bool is_public) const;

  // The headers that let a web page of an allowed origin read the response.
  HttpHeaders cors_headers(const HttpRequest& request) const;

 private:
  bool is_own_host(std::string_view host) const;
  bool is_allowed_origin(const HttpRequest& request) const;
  bool has_key(const HttpRequest& request) const;

  AccessRules rules_;
};

// Compares in a time that depends on the lengths only.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace tp
