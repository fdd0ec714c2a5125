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

// "ORG/NAME" or "ORG/NAME:FILE" of an address of the Hub, such as
// https://huggingface.co/ORG/NAME/blob/main/FILE; other texts unchanged. Another branch than main stays, and
// is no name.
std::string name_in_address(std::string_view text) {
  constexpr std::string_view kSites[] = {"huggingface.co/", "www.huggingface.co/", "hf.co/", "hf://"};
  constexpr std::string_view kFolders[] = {"/tree/main", "/blob/main", "/resolve/main"};
  std::string_view rest = text;
  for (const std::string_view scheme : {"https://", "http://"})
    if (rest.starts_with(scheme)) rest.remove_prefix(scheme.size());
  const auto* const site = std::ranges::find_if(kSites, [&](auto name) { return rest.starts_with(name); });
  if (site == std::end(kSites)) return std::string(text);
  rest.remove_prefix(site->size());
  rest = rest.substr(0, rest.find_first_of("?#"));
  for (const std::string_view folder : kFolders) {
    const std::size_t place = rest.find(folder);
    if (place == rest.npos) continue;
    const std::string_view file = rest.substr(place + folder.size());
    if (!file.empty() && file.front() != '/') continue;  // another branch
    const std::string repository(rest.substr(0, place));
    return file.ends_with(".gguf") && file.starts_with('/') ? repository + ":" + std::string(file.substr(1))
                                                            : repository;
  }
  while (rest.ends_with('/')) rest.remove_suffix(1);
  return std::string(rest);
}

}  // namespace

std::optional<HubName> parse_hub_name(std::string_view given) {
  const std::string name = name_in_address(given);
  const std::string_view text = name;
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
