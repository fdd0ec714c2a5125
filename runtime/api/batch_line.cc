#include "runtime/api/batch_line.h"

#include "model/files/json_text.h"
#include "model/files/strict_json.h"
#include "runtime/api/openai_request.h"
#include "runtime/api/prompt_ids.h"
#include "runtime/chat/openai_messages.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;
using Form = ApiRequest::Form;

Json parse_line(std::string_view line) {
  Json object;
  try {
    object = parse_strict_json<Json>(line);
  } catch (const JsonError& error) {
    throw_error<RequestError>("expected a JSON object ({})", error.what());
  }
  require<RequestError>(object.is_object(),
                        "expected a JSON object such as {{\"prompt\": \"...\"}}, found {}",
                        object.type_name());
  return object;
}

// Integers of more than 64 bits are parsed as doubles, so different ids could become equal.
bool is_exact(const Json& value) {
  if (value.is_structured())
    return std::all_of(value.begin(), value.end(), [](const Json& part) { return is_exact(part); });
  constexpr double kExactWholeNumbers = 9007199254740992.0;  // 2^53
  return !value.is_number_float() || std::abs(value.get<double>()) < kExactWholeNumbers;
}

Json read_id(const Json& id) {
  require<RequestError>(is_exact(id),
                        "`id`: expected a whole number of at most 64 bits or a text, found {}, which would "
                        "lose digits; write it as a text",
                        json_text(id));
  return id;
}

// Parses a line in the project's own format.
void read_line(Json object, ApiRequest& request) {
  request.facts.id = read_id(object.value("id", Json()));
  const int prompts = static_cast<int>(object.contains("prompt")) + static_cast<int>(object.contains("ids")) +
                      static_cast<int>(object.contains("messages"));
  require<RequestError>(
      prompts == 1,
      "expected one of a text in `prompt`, token ids in `ids` and a conversation in `messages`, "
      "found {}",
      prompts == 0 ? "none" : "several");
  if (object.contains("messages")) {
    request.conversation = Json{{"messages", read_messages(object.at("messages"))}};
  } else if (object.contains("ids")) {
    request.ids = prompt_ids_of(object.at("ids"), "`ids`");
  } else {
    const Json& text = object.at("prompt");
    require<RequestError>(text.is_string(), "`prompt` must be a text, found {}", text.type_name());
    request.text = text.get<std::string>();
  }
  for (const char* field : {"prompt", "ids", "messages", "id"}) object.erase(field);
  // `nlohmann::json` sorts members by name, which would lose the order of a schema's properties.
  if (object.contains("json_schema") && object.at("json_schema").is_structured())
    object["json_schema"] = object.at("json_schema").dump();
  request.settings = object;
}

// Selects the OpenAI format of a line by its optional `url`, or else by its body.
Form form_of(const Json& line, const Json& body) {
  const bool is_chat = body.is_object() && body.contains("messages");
  const Json url = line.value("url", Json(is_chat ? "/v1/chat/completions" : "/v1/completions"));
  if (url == "/v1/chat/completions") return Form::chat_completion;
  require<RequestError>(url == "/v1/completions",
                        "`url`: expected \"/v1/chat/completions\" or \"/v1/completions\", found {}",
                        url.dump());
  return Form::text_completion;
}

void read_openai_line(const Json& line, ApiRequest& request) {
  request.facts.form = Form::chat_completion;  // so that errors are reported in OpenAI's format
  const Json id = line.value("custom_id", Json());
  request.facts.id = id;
  require<RequestError>(id.is_string(), "`custom_id`: expected a text next to `body`, found {}",
                        id.is_null() ? "none" : id.type_name());
  const Json method = line.value("method", Json("POST"));
  require<RequestError>(method == "POST", "`method`: expected \"POST\", found {}", method.dump());
  const Json body = line.value("body", Json());
  for (const auto& [name, value] : line.items()) {
    require<RequestError>(name == "custom_id" || name == "method" || name == "url" || name == "body",
                          "unknown field `{}` next to `body`; a line has custom_id, method, url, body", name);
  }
  read_openai_body(body, form_of(line, body), request);
}

}  // namespace

ApiRequest read_batch_line(std::string_view text, std::string_view where) {
  ApiRequest request;
  request.facts.where = where;
  try {
    Json line = parse_line(text);
    if (line.contains("custom_id") || line.contains("body"))
      read_openai_line(line, request);
    else
      read_line(std::move(line), request);
  } catch (const RequestError& error) {
    request.error = error.what();
  }
  return request;
}

}  // namespace tp
