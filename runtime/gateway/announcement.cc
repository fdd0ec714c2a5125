#include "runtime/gateway/announcement.h"

#include "model/files/json_fault.h"
#include "model/files/json_text.h"
#include "tp/internal/require.h"

#include <limits>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::json;

std::string short_text(const Json& json, const char* name, bool may_lack = false) {
  constexpr std::size_t kMax = 4000;
  const auto text = may_lack ? json.value(name, "") : json.at(name).get<std::string>();
  require<RequestError>(text.size() <= kMax, "`{}` is too long", name);
  return text;
}

std::int64_t whole_number(const Json& json, const char* name, std::int64_t max) {
  const Json& number = json.at(name);
  const bool fits =
      number.is_number_unsigned() && number.get<std::uint64_t>() <= static_cast<std::uint64_t>(max);
  // dump() recurses once per level of a list that a client sends.
  require<RequestError>(fits, "`{}`: expected a whole number up to {}, found {}", name, max,
                        number.is_number() ? number.dump() : number.type_name());
  return number.get<std::int64_t>();
}

}  // namespace

std::string Announcement::to_text() const {
  const Json json = {{"host", host},       {"port", port},   {"process", process},
                     {"machine", machine}, {"isa", isa},     {"card", card},
                     {"model", model},     {"ranks", ranks}, {"origins", origins}};
  return json_text(json);
}

Announcement parse_announcement(std::string_view text) {
  require<RequestError>(
      text.size() <= kMaxAnnouncement,
      "expected an announcement of at most {} bytes, found {}; does tp-infer serve send it?",
      kMaxAnnouncement, text.size());
  const Json json = Json::parse(text, nullptr, false);
  require<RequestError>(json.is_object(), "expected a JSON object, found none");
  try {
    const std::int64_t port = whole_number(json, "port", std::numeric_limits<std::uint16_t>::max());
    require<RequestError>(port > 0, "`port`: expected a port, found 0");
    return {.host = short_text(json, "host"),
            .port = static_cast<std::uint16_t>(port),
            .process = whole_number(json, "process", std::numeric_limits<std::int32_t>::max()),
            .machine = short_text(json, "machine"),
            .isa = short_text(json, "isa"),
            .card = short_text(json, "card", true),
            .model = short_text(json, "model"),
            .ranks = static_cast<std::size_t>(
                whole_number(json, "ranks", std::numeric_limits<std::int32_t>::max())),
            .origins = json.at("origins").get<std::vector<std::string>>()};
  } catch (const Json::exception& error) {
    throw_error<RequestError>("the announcement is not valid: {}", json_fault(error));
  }
}

std::string secret_in(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

}  // namespace tp
