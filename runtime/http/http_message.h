#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tp {

// The largest body of requests that need none. Some clients send a few bytes with GET. Anyone may send such
// requests, so their bodies must not use up the room for all bodies (HttpLimits::all_body_bytes).
inline constexpr std::size_t kNoBodyBytes = std::size_t{4} << 10;

// ASCII letters in lower case, because names of headers and hosts are compared without case.
std::string lower_case(std::string_view text);

// The value of a label in the text format of Prometheus, which monitoring reads over HTTP.
std::string label_text(const std::string& text);

// The parts of "http://node1:8080/v1/models", the form that proxies send. Other targets have no authority.
struct HttpTarget {
  std::string path{};  // path with query
  std::string authority{};
};
HttpTarget split_target(const std::string& target);

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method{};   // "GET"
  std::string target{};   // as sent: "/v1/models?limit=1"
  HttpHeaders headers{};  // names in lower case; `x-request-id` is the client's, or else the server's
  std::string body{};
  std::string client{};  // client's address
  std::string user{};    // name of the client's key; set when the key has been checked
  // The largest body that the request's handler reads. HttpLimits::body_bytes applies, too.
  std::size_t max_body = std::numeric_limits<std::size_t>::max();

  // The target without the query.
  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
  // The first header with this name, which must be in lower case; empty without such a header.
  std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
};

// A random id of a request, in the form of OpenAI's and Anthropic's.
std::string new_request_id();
// Replaces the id by the client's, if the request has one. Otherwise gives the request the id.
void identify(HttpRequest& request, std::string& id);
// Whether a header contains a request's id: OpenAI's and Anthropic's names differ.
bool is_request_id(std::string_view header);

struct HttpResponse {
  int status = 200;
  std::string body{};
  std::string content_type = "application/json";
  HttpHeaders headers{};  // additional headers; the server adds `x-request-id` and `request-id`
};

}  // namespace tp
