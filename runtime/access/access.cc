#include "runtime/access/access.h"

#include <algorithm>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

namespace tp {
namespace {

bool is_address(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

std::string name_of_machine() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return lower_case(name);
}

}  // namespace

Access::Access(AccessRules rules)
    : rules_(std::move(rules)),
      origins_(rules_.origins),
      keys_(std::make_shared<const ApiKeys>(std::exchange(rules_.api_keys, {}))) {}

std::shared_ptr<const ApiKeys> Access::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

void Access::set_keys(ApiKeys keys) {
  auto next = std::make_shared<const ApiKeys>(std::move(keys));
  const std::lock_guard lock(mutex_);
  keys_ = std::move(next);
}

// An attacker can redirect a name to this machine, but not an address.
bool Access::is_own_host(std::string_view host) const {
  const std::string name = without_port(host);
  return is_local(name) || is_address(name) || name == name_of_machine() || lists(rules_.hosts, name) ||
         lists(rules_.hosts, lower_case(host));
}

// Any right key counts, because a client may send the key of another service in a second header. `api-key` is
// the header of Azure's clients.
bool Access::identify(HttpRequest& request) const {
  constexpr std::string_view kBearer = "bearer ";
  request.client = rules_.proxies.client_of(request);
  const std::shared_ptr<const ApiKeys> keys = this->keys();
  bool found = keys->empty();
  for (const auto& [name, value] : request.headers) {
    std::string_view key = value;
    if (name == "authorization" && lower_case(key.substr(0, kBearer.size())) == kBearer)
      key.remove_prefix(kBearer.size());
    else if (name != "x-api-key" && name != "api-key")
      continue;
    const std::optional<std::string> user = name_of_key(*keys, key);
    if (!user) continue;
    request.user = user->empty() ? "-" : *user;
    found = true;
  }
  return found;
}

std::optional<ApiError> Access::refusal(const HttpRequest& request, bool may_lack_key) const {
  const std::string_view host = request.header("host");
  if (!host.empty() && !is_own_host(host)) {
    return ApiError{.status = 403,
                    .message = fmt::format(
                        "this server is not known as {}; start it with --allowed-hosts {} if it should be",
                        host, without_port(host)),
                    .code = "host_not_allowed"};
  }
  if (!origins_.allow(request)) {
    const std::string_view origin = request.header("origin");
    return ApiError{
        .status = 403,
        .message = fmt::format("web pages of {} may not use this server; start it with --cors-origins {} if "
                               "they should",
                               origin, origin),
        .code = "origin_not_allowed"};
  }
  if (may_lack_key || !has_keys()) return std::nullopt;
  return lack_of_key();
}

ApiError Access::lack_of_key() {
  return {.status = 401,
          .message =
              "expected a valid API key in the header `Authorization: Bearer KEY`, `x-api-key: KEY` or "
              "`api-key: KEY`"};
}

}  // namespace tp
