#include "runtime/constraint/schema/json_formats.h"

#include <map>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp::constraint {
namespace {

// Years 0001 to 9999, with the days that each month has.
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

// Eight groups, or fewer with `::` in place of the missing groups.
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

// A URI, or a reference without the parts before the path.
std::string uri_reference() {
  const std::string character = "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-F]{2})";
  return "(?:" + uri() + "|(?:/?" + character + "+)*(?:#" + character + "*)?)";
}

// RFC 3339, appendix A: smaller units follow larger units without a gap.
std::string duration() {
  const auto chain = [](std::string_view units) {  // any consecutive units
    std::string all;
    std::string from;
    for (std::size_t i = units.size(); i-- > 0;) {
      from = fmt::format("[0-9]{{1,6}}{}{}", units[i], from.empty() ? "" : "(?:" + from + ")?");
      all = from + (all.empty() ? "" : "|" + all);
    }
    return "(?:" + all + ")";
  };
  const std::string time = "T" + chain("HMS");
  return fmt::format("P(?:{}(?:{})?|{}|[0-9]{{1,6}}W)", chain("YMD"), time, time);
}

std::string uuid(std::string_view version) {
  return fmt::format("[0-9a-fA-F]{{8}}-[0-9a-fA-F]{{4}}-{}-[0-9a-fA-F]{{4}}-[0-9a-fA-F]{{12}}", version);
}

std::string base64(std::string_view last_two) {
  const std::string one = fmt::format("[A-Za-z0-9{}]", last_two);
  return fmt::format("(?:{0}{{4}})*(?:{0}{{2}}==|{0}{{3}}=)?", one);
}

using Formats = std::map<std::string, std::string, std::less<>>;

Formats make_formats() {
  const std::string pointer = "(?:/(?:[^~/]|~[01])*)*";
  Formats formats = {
      {"base64", base64("+/")},
      {"base64url", base64("_-")},
      {"byte", base64("+/")},
      {"date", date()},
      {"date-time", date() + "T" + time()},
      {"duration", duration()},
      {"email", email()},
      {"hostname", hostname()},
      {"idn-email", email()},
      {"idn-hostname", hostname()},
      {"ipv4", ipv4()},
      {"ipv6", ipv6()},
      {"iri", uri()},
      {"iri-reference", uri_reference()},
      {"json-pointer", pointer},
      {"relative-json-pointer", "(?:0|[1-9][0-9]{0,5})(?:#|" + pointer + ")"},
      {"time", time()},
      {"uri", uri()},
      {"uri-reference", uri_reference()},
      {"uri-template", uri()},
      {"url", uri()},
      {"uuid", uuid("[0-9a-fA-F]{4}")},
  };
  for (const char version : std::string_view("12345678"))
    formats[fmt::format("uuid{}", version)] = uuid(fmt::format("{}[0-9a-fA-F]{{3}}", version));
  return formats;
}

}  // namespace

std::optional<std::string> format_pattern(const nlohmann::ordered_json& format) {
  static const Formats table = make_formats();
  const auto found = format.is_string() ? table.find(format.get<std::string>()) : table.end();
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

std::optional<IntegerFormat> integer_format(const nlohmann::ordered_json& format) {
  static const std::map<std::string, IntegerFormat, std::less<>> table = {
      {"int8", {"-128", "127"}},
      {"int16", {"-32768", "32767"}},
      {"int32", {"-2147483648", "2147483647"}},
      {"int64", {"-9223372036854775808", "9223372036854775807"}},
      {"uint8", {"0", "255"}},
      {"uint16", {"0", "65535"}},
      {"uint32", {"0", "4294967295"}},
      {"uint64", {"0", "18446744073709551615"}},
  };
  const auto found = format.is_string() ? table.find(format.get<std::string>()) : table.end();
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace tp::constraint
