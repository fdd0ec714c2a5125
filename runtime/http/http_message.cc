#include "runtime/http/http_message.h"

#include <algorithm>
#include <cctype>

namespace tp {

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
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

}  // namespace tp
