#include "model/weights/gguf/gguf_part_name.h"

#include "model/files/parse_number.h"

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
  part.number = parse_number<std::size_t>(end.substr(1, 5)).value_or(0);
  part.count = parse_number<std::size_t>(end.substr(10, 5)).value_or(0);
  const bool is_part = part.number >= 1 && part.number <= part.count &&
                       part.of(part.number) == name;  // compares the rest of the pattern
  return is_part ? std::optional(part) : std::nullopt;
}

}  // namespace tp
