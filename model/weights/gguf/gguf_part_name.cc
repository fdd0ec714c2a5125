#include "model/weights/gguf/gguf_part_name.h"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace tp {

std::string GgufPartName::of(std::size_t other) const {
  return fmt::format("{}-{:05}-of-{:05}.gguf", stem, other, count);
}

std::optional<GgufPartName> parse_gguf_part_name(const std::string& name) {
  constexpr std::string_view kPattern = "-00001-of-00003.gguf";
  if (name.size() <= kPattern.size()) return std::nullopt;
  const std::string_view end = std::string_view(name).substr(name.size() - kPattern.size());
  GgufPartName part{name.substr(0, name.size() - kPattern.size())};
  const auto read = [](std::string_view digits, std::size_t& number) {
    return std::from_chars(digits.data(), digits.data() + digits.size(), number).ptr ==
           digits.data() + digits.size();
  };
  const bool is_part = read(end.substr(1, 5), part.number) && read(end.substr(10, 5), part.count) &&
                       part.number >= 1 && part.number <= part.count &&
                       part.of(part.number) == name;  // compares the rest of the pattern
  return is_part ? std::optional(part) : std::nullopt;
}

}  // namespace tp
