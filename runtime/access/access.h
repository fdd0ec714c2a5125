// Decides who may use the server, and from which web pages.
#pragma once

#include "runtime/access/api_keys.h"
#include "runtime/access/trusted_proxies.h"
#include "runtime/api/api_error.h"
#include "runtime/http/http_message.h"
#include "runtime/http/origins.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

struct AccessRules {
  ApiKeys api_keys{};  // accepted keys; empty: no key is needed
  // Host names of the server, besides localhost, this machine's name and its addresses; "*": any name.
  std::vector<std::string> hosts{};
  // Origins of web pages that may use the server ("https://chat.example.com"), besides its own page and pages
  // of localhost; "*": all.
  std::vector<std::string> origins{};
  TrustedProxies proxies{};

  bool is_empty() const { return api_keys.empty() && hosts.empty() && origins.empty(); }
};

// Thread-safe.
class Access {
 public:
  explicit Access(AccessRules rules);

  // Sets `client` and `user` of the request: its address, and if it sends one of the keys, the key's name, or
  // "-" if the key has none. Returns whether it sends one, or no key is needed.
  bool identify(HttpRequest& request) const;

  // Returns why the request is refused, or nullopt. `may_lack_key`: no key is needed, or it has been found.
  //
  // Any web page that a user of this machine opens can send requests to a server on the machine. So other
  // origins are refused. Unknown host names are refused, too, because a page can make its own name resolve to
  // this machine.
  std::optional<ApiError> refusal(const HttpRequest& request, bool may_lack_key) const;
  // The part of refusal() about keys.
  static ApiError lack_of_key();

  // From now on, these keys count. None would open the server, so the list must not be empty.
  void set_keys(ApiKeys keys);
  bool has_keys() const { return !keys()->empty(); }
  const Origins& origins() const { return origins_; }

 private:
  bool is_own_host(std::string_view host) const;
  std::shared_ptr<const ApiKeys> keys() const;

  AccessRules rules_;  // without keys
  Origins origins_;
  mutable std::mutex mutex_;  // guards keys_
  std::shared_ptr<const ApiKeys> keys_;
};

}  // namespace tp
