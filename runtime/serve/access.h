// Decides who may use the server, and from which web pages.
#pragma once

#include "runtime/api/api_error.h"
#include "runtime/http/http_message.h"
#include "runtime/http/origins.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

struct AccessRules {
  std::vector<std::string> api_keys{};  // accepted keys; empty: no key is needed
  // Host names of the server, besides localhost, this machine's name and its addresses; "*": any name.
  std::vector<std::string> hosts{};
  // Origins of web pages that may use the server ("https://chat.example.com"), besides its own page and pages
  // of localhost; "*": all.
  std::vector<std::string> origins{};
};

class Access {
 public:
  explicit Access(AccessRules rules);

  // Returns why the request is refused, or nullopt. `is_public`: no key is needed.
  //
  // Any web page that a user of this machine opens can send requests to a server on the machine. So other
  // origins are refused. Unknown host names are refused, too, because a page can make its own name resolve to
  // this machine.
  std::optional<ApiError> refusal(const HttpRequest& request, bool is_public) const;

  const Origins& origins() const { return origins_; }

 private:
  bool is_own_host(std::string_view host) const;
  bool has_key(const HttpRequest& request) const;

  AccessRules rules_;
  Origins origins_;
};

// Compares in a time that depends only on the lengths.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace tp
