#include "runtime/http/origins.h"

#include <algorithm>

namespace tp {
namespace {

// "http://localhost:3000" -> "localhost:3000".
std::string_view authority_of(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

}  // namespace

std::string without_port(std::string_view host) {
  if (host.starts_with('[')) return lower_case(host.substr(1, host.find(']') - 1));
  return lower_case(host.substr(0, host.find(':')));
}

bool is_local(std::string_view host) {
  return host == "localhost" || host.ends_with(".localhost") || host == "127.0.0.1" || host == "::1";
}

bool lists(const std::vector<std::string>& list, std::string_view name) {
  return std::ranges::any_of(
      list, [&](const std::string& entry) { return entry == "*" || lower_case(entry) == name; });
}

bool Origins::allow(const HttpRequest& request) const {
  const std::string origin = lower_case(request.header("origin"));
  if (origin.empty() || lists(allowed_, origin)) return true;
  const std::string_view authority = authority_of(origin);
  if (authority.find('@') != std::string_view::npos) return false;
  return is_local(without_port(authority)) || authority == lower_case(request.header("host"));
}

HttpHeaders Origins::headers(const HttpRequest& request) const {
  const std::string_view origin = request.header("origin");
  if (origin.empty() || !allow(request)) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Vary", "Origin"},
          {"Access-Control-Expose-Headers", "x-request-id, request-id, retry-after"}};
}

HttpHeaders Origins::preflight_headers(const HttpRequest& request, const std::string& methods) const {
  if (request.header("origin").empty() || !allow(request)) return {};
  const std::string_view wanted = request.header("access-control-request-headers");
  return {{"Access-Control-Allow-Methods", methods},
          {"Access-Control-Allow-Headers",
           wanted.empty() ? "authorization, content-type, x-api-key, api-key" : std::string(wanted)},
          {"Access-Control-Max-Age", "3600"}};
}

}  // namespace tp
