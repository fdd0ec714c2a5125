#include "runtime/serve/access.h"

#include <algorithm>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

namespace tp {
namespace {

// "node1:8080" -> "node1", "[::1]:8080" -> "::1".
std::string without_port(std::string_view host) {
  if (host.starts_with('[')) return lower_case(host.substr(1, host.find(']') - 1));
  return lower_case(host.substr(0, host.find(':')));
}

bool is_address(const std::string& host) {
  in6_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool is_local(const std::string& host) {
  return host == "localhost" || host.ends_with(".localhost") || host == "127.0.0.1" || host == "::1";
}

std::string name_of_machine() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return lower_case(name);
}

// "http://localhost:3000" -> "localhost:3000".
std::string_view authority_of(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

bool contains(const std::vector<std::string>& list, std::string_view wanted) {
  return std::ranges::any_of(
      list, [&](const std::string& entry) { return entry == "*" || lower_case(entry) == wanted; });
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

Access::Access(AccessRules rules) : rules_(std::move(rules)) {}

// An attacker can redirect a name to this machine, but not an address.
bool Access::is_own_host(std::string_view host) const {
  const std::string name = without_port(host);
  return is_local(name) || is_address(name) || name == name_of_machine() || contains(rules_.hosts, name) ||
         contains(rules_.hosts, lower_case(host));
}

bool Access::is_allowed_origin(const HttpRequest& request) const {
  const std::string origin = lower_case(request.header("origin"));
  if (origin.empty() || contains(rules_.origins, origin)) return true;
  const std::string_view authority = authority_of(origin);
  if (authority.find('@') != std::string_view::npos) return false;
  return is_local(without_port(authority)) || authority == lower_case(request.header("host"));
}

bool Access::has_key(const HttpRequest& request) const {
  std::string_view key = request.header("x-api-key");
  const std::string_view authorization = request.header("authorization");
  constexpr std::string_view kBearer = "bearer ";
  if (lower_case(authorization.substr(0, kBearer.size())) == kBearer)
    key = authorization.substr(kBearer.size());
  bool found = false;
  for (const std::string& expected : rules_.api_keys) found |= equal_in_constant_time(key, expected);
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
  if (!is_allowed_origin(request)) {
    const std::string_view origin = request.header("origin");
    return ApiError{
        .status = 403,
        .message = fmt::format("web pages of {} may not use this server; start it with --cors-origins {} if "
                               "they should",
                               origin, origin)};
  }
  if (is_public || rules_.api_keys.empty() || has_key(request)) return std::nullopt;
  return ApiError{.status = 401,
                  .message = "expected a valid API key in the header `Authorization: Bearer KEY`"};
}

HttpHeaders Access::cors_headers(const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !is_allowed_origin(request)) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Vary", "Origin"},
          {"Access-Control-Expose-Headers", "x-request-id, retry-after"}};
}

}  // namespace tp
