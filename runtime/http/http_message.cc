#include "runtime/http/http_message.h"

#include <algorithm>
#include <cctype>
#include <random>

#include <fmt/format.h>

namespace tp {

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
  return result;
}

std::string label_text(const std::string& text) {
  std::string result;
  for (const char byte : text) {
    if (byte == '\\' || byte == '"') result += '\\';
    result += byte == '\n' ? ' ' : byte;
  }
  return result;
}

HttpTarget split_target(const std::string& target) {
  const std::size_t scheme = target.starts_with("http://") ? 7 : target.starts_with("https://") ? 8 : 0;
  if (scheme == 0) return {.path = target};
  const std::size_t path = std::min(target.find_first_of("/?", scheme), target.size());
  const std::string rest = target.substr(path);
  return {.path = rest.starts_with('/') ? rest : "/" + rest,
          .authority = target.substr(scheme, path - scheme)};
}

std::string new_request_id() {
  std::random_device random;
  return fmt::format("req_{:08x}{:08x}{:08x}", random(), random(), random());
}

void identify(HttpRequest& request, std::string& id) {
  if (const std::string_view given = request.header("x-request-id"); !given.empty())
    id = given;
  else
    request.headers.emplace_back("x-request-id", id);
}

bool is_request_id(std::string_view header) {
  const std::string name = lower_case(header);
  return name == "x-request-id" || name == "request-id";
}

}  // namespace tp
