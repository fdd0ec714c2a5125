#include "runtime/constraint/schema/json_pointer.h"

#include "model/files/percent_decoded.h"

#include <algorithm>
#include <cstddef>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

std::string unescaped_part(std::string_view part) {
  std::string text;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1'))
      text.push_back(part[++i] == '0' ? '~' : '/');
    else
      text.push_back(part[i]);
  }
  return text;
}

const Json* pointed_child(const Json& json, const std::string& key) {
  if (json.is_object()) {
    const auto found = json.find(key);
    return found == json.end() ? nullptr : &*found;
  }
  if (!json.is_array() || key.empty() || key.size() > 6 ||
      key.find_first_not_of("0123456789") != std::string::npos)
    return nullptr;
  const std::size_t index = std::stoul(key);
  return index < json.size() ? &json[index] : nullptr;
}

const Json* find_plain_pointer(const Json& json, std::string_view pointer) {
  const Json* found = &json;
  while (found != nullptr && !pointer.empty()) {
    const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
    found = pointed_child(*found, unescaped_part(pointer.substr(1, end - 1)));
    pointer.remove_prefix(end);
  }
  return found;
}

}  // namespace

const Json* find_pointer(const Json& json, std::string_view pointer) {
  const Json* decoded = find_plain_pointer(json, percent_decoded(pointer));
  return decoded != nullptr ? decoded : find_plain_pointer(json, pointer);
}

}  // namespace tp
