#include "runtime/serve/access.h"

#include <algorithm>

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

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other);
  }
  return difference == 0;
}

Access::Access(AccessRules rules) : rules_(std::move(rules)), origins_(rules_.origins) {}

// An attacker can redirect a name to this machine, but not an address.
bool Access::is_own_host(std::string_view host) const {
  const std::string name = without_port(host);
  return is_local(name) || is_address(name) || name == name_of_machine() || lists(rules_.hosts, name) ||
         lists(rules_.hosts, lower_case(host));
}

// Any right key counts, because a client may send the key of another service in a second header. `api-key` is
// the header of Azure's clients.
bool Access::has_key(const HttpRequest& request) const {
  constexpr std::string_view kBearer = "bearer ";
  bool found = false;
  for (const auto& [name, value] : request.headers) {
    std::string_view key = value;
    if (name == "authorization" && lower_case(key.substr(0, kBearer.size())) == kBearer)
      key.remove_prefix(kBearer.size());
    else if (name != "x-api-key" && name != "api-key")
      continue;
    for (const std::string& expected : rules_.api_keys) found |= equal_in_constant_time(key, expected);
  }
  return found;
}

std::optional<ApiError> Access::refusal(const HttpRequest& request, bool is_public) const {
  const std::string_view host = request.header("host");
  if (!host.empty() && !is_own_host(host)) {
    return ApiError{.status = 403,
                    .message = fmt::format(
                        "this server is not known as {}; start it with --allowed-hosts {} if it should be",
                        host, without_port(host))};
  }
  if (!origins_.allow(request)) {
    const std::string_view origin = request.header("origin");
    return ApiError{
        .status = 403,
        .message = fmt::format("web pages of {} may not use this server; start it with --cors-origins {} if "
                               "they should",
                               origin, origin)};
  }
  if (is_public || rules_.api_keys.empty() || has_key(request)) return std::nullopt;
  return ApiError{.status = 401,
                  .message =
                      "expected a valid API key in the header `Authorization: Bearer KEY`, "
                      "`x-api-key: KEY` or `api-key: KEY`"};
}

}  // namespace tp
