// The gateway reads these inputs from jobs, clients and operators. An input's first byte chooses the reader.
// Seeds: a marked stream, a record, an announcement, a configuration, a job's messages, a request's body,
// keys, a URL.
#include "runtime/access/api_keys.h"
#include "runtime/api/record.h"
#include "runtime/gateway/announcement.h"
#include "runtime/gateway/config.h"
#include "runtime/gateway/error_lines.h"
#include "runtime/gateway/marked_stream.h"
#include "runtime/gateway/request_members.h"
#include "runtime/http/http_call.h"
#include "tp/error.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace {

// Returns pieces and marks, for any division of the bytes.
std::string divided(std::string_view text, std::size_t size) {
  tp::MarkedStream stream(std::size_t{1} << 20);
  std::string all;
  for (std::size_t begin = 0; begin < text.size(); begin += size) {
    stream.add(text.substr(begin, size), [&](std::string_view piece, std::string_view mark) {
      all.append(piece).append("\x01").append(mark).append("\x02");
      return true;
    });
  }
  return all;
}

void read(std::uint8_t reader, std::string_view text) {
  switch (reader % 8) {
    case 0:
      if (divided(text, text.size() + 1) != divided(text, 1)) std::abort();
      return;
    case 1: {
      const tp::Record record = tp::parse_record(text);
      for (const tp::RecordedToken& token : record.tokens) {
        const std::string mark = tp::mark_of(token.prompt, token.event);
        const std::string again = tp::record_text({.id = "1"}, mark + ",");
        const tp::RecordedToken read = tp::parse_record(again).tokens.at(0);
        if (tp::mark_of(read.prompt, read.event) != mark) std::abort();
      }
      return;
    }
    case 2:
      tp::parse_announcement(tp::parse_announcement(text).to_text());
      return;
    case 3:
      for (const tp::ModelEntry& entry : tp::parse_gateway_config(text, "file")) entry.named_commands();
      return;
    case 4: {
      tp::ErrorLines lines;
      lines.add(text);
      return;
    }
    case 5: {
      // The members of a complete object match a parser's.
      const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
      const tp::RequestMembers members = tp::members_of(text);
      if (!json.is_object()) return;
      const nlohmann::json model = json.value("model", nlohmann::json());
      if (text.size() < 4096 && members.model != (model.is_string() ? model.get<std::string>() : ""))
        std::abort();
      if (members.stream != (json.value("stream", nlohmann::json()) == true)) std::abort();
      return;
    }
    case 6:
      tp::parse_api_keys(text, "file");
      return;
    default:
      tp::parse_http_url(std::string(text));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    read(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const tp::Error&) {
  }
  return 0;
}
