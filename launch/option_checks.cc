#include "launch/option_checks.h"

#include <charconv>
#include <string>

#include <fmt/format.h>

namespace tp {

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const auto check = [least, most](std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [parsed, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && parsed == end && value >= least && value <= most) return {};
    if (most == std::numeric_limits<std::int64_t>::max()) {
      return fmt::format("expected a whole number of at least {}, found {}", least, text);
    }
    return fmt::format("expected a whole number from {} to {}, found {}", least, most, text);
  };
  return CLI::Validator(check, "");
}

}  // namespace tp
