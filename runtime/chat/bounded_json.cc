#include "runtime/chat/bounded_json.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

namespace tp {

JsonExcess BoundedJson::admit(std::string_view text) {
  constexpr std::size_t kMaxComparisons = 5'000'000;
  std::size_t depth = 0;
  bool in_string = false;
  std::array<std::size_t, kMaxJsonDepth + 1> members{};  // [depth]: members so far of each open object
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char byte = text[i];
    if (in_string) {
      if (byte == '\\') ++i;
      in_string = byte != '"';
    } else if (byte == '"') {
      in_string = true;
    } else if (byte == '[' || byte == '{') {
      if (++depth > kMaxJsonDepth) return JsonExcess::depth;
      members[depth] = 0;
    } else if (byte == ']' || byte == '}') {
      depth -= std::min<std::size_t>(depth, 1);
    } else if (byte == ':') {
      comparisons_ += members[depth]++;
      if (comparisons_ > kMaxComparisons) return JsonExcess::members;
    }
  }
  return JsonExcess::none;
}

std::optional<nlohmann::ordered_json> BoundedJson::parse(std::string_view text) {
  if (admit(text) != JsonExcess::none) return std::nullopt;
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, false);
  return json.is_discarded() ? std::nullopt : std::optional(std::move(json));
}

}  // namespace tp
