#include "runtime/constraint/json_formats.h"

#include <map>
#include <vector>

#include <fmt/ranges.h>

namespace tp::constraint {
namespace {

// Years 0001 to 9999, with the days that their months have.
std::string date() {
  const std::string year = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
  const std::string leap_year =
      "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
  return "(?:" + year +
         "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
         "|02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
         leap_year + "-02-29)";
}

std::string time() {
  const std::string hour_and_minute = "(?:[01][0-9]|2[0-3]):[0-5][0-9]";
  return hour_and_minute + ":[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-]" + hour_and_minute + ")";
}

std::string ipv4() {
  const std::string part = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return part + "(?:\\." + part + "){3}";
}

// Eight groups, or fewer with `::` in place of the others.
std::string ipv6() {
  const std::string group = "[0-9a-fA-F]{1,4}";
  std::vector<std::string> forms = {"(?:" + group + ":){7}" + group,
                                    "(?:" + group + ":){1,7}:", ":(?:(?::" + group + "){1,7}|:)"};
  for (int before = 1; before <= 6; ++before)
    forms.push_back(fmt::format("(?:{}:){{{}}}(?::{}){{1,{}}}", group, before, group, 7 - before));
  return fmt::format("(?:{})", fmt::join(forms, "|"));
}

std::string hostname() {
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return label + "(?:\\." + label + "){0,3}";
}

std::string email() {
  const std::string atom = "[A-Za-z0-9_+-]{1,20}";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return atom + "(?:\\." + atom + "){0,2}@" + label + "(?:\\." + label + "){1,3}";
}

std::string uri() {
  const std::string character = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})";
  return "[A-Za-z][A-Za-z0-9+.-]{0,15}://" + hostname() + "(?::[0-9]{1,4})?(?:/" + character +
         "*)*(?:\\?(?:" + character + "|[/?])*)?(?:#(?:" + character + "|[/?])*)?";
}

const std::map<std::string, std::string, std::less<>>& formats() {
  static const std::map<std::string, std::string, std::less<>> table = {
      {"date", date()},
      {"date-time", date() + "T" + time()},
      {"email", email()},
      {"hostname", hostname()},
      {"ipv4", ipv4()},
      {"ipv6", ipv6()},
      {"time", time()},
      {"uri", uri()},
      {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
  };
  return table;
}

}  // namespace

std::optional<std::string> format_pattern(std::string_view format) {
  const auto found = formats().find(format);
  return found == formats().end() ? std::nullopt : std::optional(found->second);
}

std::string known_formats() {
  std::vector<std::string> names;
  for (const auto& [name, pattern] : formats()) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace tp::constraint
