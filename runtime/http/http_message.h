#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tp {

// ASCII letters in lower case, as names of headers and hosts are compared.
std::string lower_case(std::string_view text);

// The parts of "http://node1:8080/v1/models", as proxies send it; other targets have no authority.
struct HttpTarget {
  std::string path{};  // with the query
  std::string authority{};
};
HttpTarget split_target(const std::string& target);

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method{};   // "GET"
  std::string target{};   // as sent: "/v1/models?limit=1"
  HttpHeaders headers{};  // names in lower case
  std::string body{};
  std::string client{};  // the address it came from

  // The target without its query.
  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
  // The first header of that name, which must be in lower case; empty if there is none.
  std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
};

struct HttpResponse {
  int status = 200;
  std::string body{};
  std::string content_type = "application/json";
  HttpHeaders headers{};  // further ones
};

}  // namespace tp
