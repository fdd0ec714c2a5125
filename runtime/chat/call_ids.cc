#include "runtime/chat/call_ids.h"

#include "runtime/chat/message.h"

#include <cstddef>
#include <map>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;

std::string text_member(const Json& object, const char* name) {
  const Json value = object.is_object() ? object.value(name, Json()) : Json();
  return value.is_string() ? value.get<std::string>() : "";
}

std::string nine_characters(const std::string& id) {
  const bool fits = id.find_first_not_of(kCallIdCharacters) == id.npos;
  return fits && id.size() == kCallIdSize ? id : call_id_from(id);
}

class CallIdWriter {
 public:
  explicit CallIdWriter(CallIds ids) : ids_(ids) {}

  void write(Json& message) {
    const auto calls = message.find("tool_calls");
    if (calls != message.end() && calls->is_array()) {
      for (Json& call : *calls) {
        if (call.is_object()) call["id"] = id_of_call(call);
      }
    }
    if (message.contains("tool_call_id"))
      message["tool_call_id"] = id_of_result(text_member(message, "tool_call_id"));
  }

 private:
  std::string id_of_call(const Json& call) {
    const std::string id = text_member(call, "id");
    if (ids_ == CallIds::nine_characters) return nine_characters(id);
    const std::string name = text_member(call.value("function", Json()), "name");
    return known_[id] = fmt::format("functions.{}:{}", name, count_++);
  }

  std::string id_of_result(const std::string& id) const {
    if (ids_ == CallIds::nine_characters) return nine_characters(id);
    const auto found = known_.find(id);
    return found == known_.end() ? id : found->second;
  }

  CallIds ids_;
  std::map<std::string, std::string> known_{};
  std::size_t count_ = 0;  // calls in the conversation
};

}  // namespace

void write_call_ids(CallIds ids, Json& messages) {
  if (ids == CallIds::any) return;
  CallIdWriter writer(ids);
  for (Json& message : messages) {
    if (message.is_object()) writer.write(message);
  }
}

}  // namespace tp
