// Proxies whose header `X-Forwarded-For` counts.
#pragma once

#include "runtime/http/http_message.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

class TrustedProxies {
 public:
  TrustedProxies() = default;
  // `proxies`: addresses ("10.0.0.1", "::1") and networks ("10.0.0.0/8"). Throws ConfigError.
  explicit TrustedProxies(const std::vector<std::string>& proxies);

  bool contains(std::string_view address) const;
  // The address of the client: that of the connection's other end, unless it is a trusted proxy. Then the
  // last address in X-Forwarded-For that is not a trusted proxy's, because clients can write what comes
  // before it.
  std::string client_of(const HttpRequest& request) const;

 private:
  using Address = std::array<std::uint8_t, 16>;  // IPv4 addresses as ::ffff:a.b.c.d
  struct Network {
    Address address{};
    unsigned bits = 0;  // length of the prefix
  };

  static bool parse(std::string_view text, Address& address);

  std::vector<Network> networks_{};
};

}  // namespace tp
