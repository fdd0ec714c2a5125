#include "launch/hub/hub_name.h"

#include <algorithm>
#include <cctype>

namespace tp {
namespace {

// Checks the Hub's own rules. Two hyphens would be ambiguous in the names of the cache's folders.
bool is_part(std::string_view part) {
  constexpr std::size_t kLongest = 96;
  return !part.empty() && part.size() <= kLongest &&
         std::isalnum(static_cast<unsigned char>(part.front())) != 0 &&
         std::all_of(
             part.begin(), part.end(),
             [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; }) &&
         part.find("--") == part.npos && part.find("..") == part.npos;
}

}  // namespace

std::optional<HubName> parse_hub_name(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view repository = text.substr(0, colon);
  const std::size_t slash = repository.find('/');
  if (slash == repository.npos || !is_part(repository.substr(0, slash)) ||
      !is_part(repository.substr(slash + 1)))
    return std::nullopt;
  if (colon == text.npos) return HubName{std::string(repository), {}};
  const std::string_view file = text.substr(colon + 1);
  if (!is_safe_path(file)) return std::nullopt;
  return HubName{std::string(repository), std::string(file)};
}

bool is_safe_path(std::string_view path) {
  constexpr std::size_t kLongestPath = 1024;
  constexpr std::size_t kLongestName = 200;  // 255, minus the additional characters of partial files' names
  if (path.size() > kLongestPath) return false;
  const bool is_printable =
      std::all_of(path.begin(), path.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7F; });
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    if (name.empty() || name == "." || name == ".." || name.size() > kLongestName) return false;
    begin = end + 1;
  }
  return is_printable;
}

}  // namespace tp
