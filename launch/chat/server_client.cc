#include "launch/chat/server_client.h"

#include "launch/chat/event_stream.h"
#include "model/files/json_text.h"
#include "tp/internal/require.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxErrorBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxListBytes = std::size_t{4} << 20;

std::string api_address(std::string url) {
  if (url.find("://") == url.npos) url = "http://" + url;
  while (url.ends_with('/')) url.pop_back();
  const bool has_path = url.find('/', url.find("://") + 3) != url.npos;
  return has_path ? url : url + "/v1";
}

// Returns the message of a server's error: {"error": {"message": ...}}, {"error": ...}, {"message": ...} or a
// text.
std::string message_in(const Json& body) {
  if (body.is_string()) return body.get<std::string>();
  for (const char* const name : {"error", "message", "detail"}) {
    if (body.is_object() && body.contains(name)) return message_in(body.at(name));
  }
  return {};
}

// Returns " (the model is busy)", or nothing for a page of HTML.
std::string said(const std::string& body) {
  const std::string message = message_in(Json::parse(body, nullptr, false));
  return message.empty() ? "" : fmt::format(" ({})", message);
}

std::string when_to_return(const HttpHead& head) {
  const std::string seconds = head.field("retry-after");
  const bool is_number = !seconds.empty() && seconds.find_first_not_of("0123456789") == seconds.npos;
  return is_number ? fmt::format("try again in {} s", seconds) : "try again later";
}

bool is_stream(const HttpHead& head) { return head.field("content-type").starts_with("text/event-stream"); }

// Appends bytes up to a limit.
bool keep(std::string& text, std::string_view bytes, std::size_t limit) {
  text += bytes.substr(0, limit - text.size());
  return text.size() < limit;
}

}  // namespace

ServerClient::ServerClient(HttpClient& http, const std::string& address, std::string key)
    : http_(http), address_(api_address(address)), key_(std::move(key)) {}

void ServerClient::exchange(const OutgoingRequest& request, const HttpReceiver& receiver) {
  bool has_begun = false;
  HttpReceiver watched = receiver;
  watched.head = [&](const HttpHead& head) {
    has_begun = true;
    return receiver.head(head);
  };
  try {
    http_.exchange(request, watched);
  } catch (const TransientError& error) {
    require<RequestError>(
        has_begun,
        "cannot reach {}: expected a server, found: {}; start one (tp-infer serve), or check the address",
        address_, error.what());
    throw_error<RequestError>("the answer of {} broke off: expected a complete answer, found: {}; ask again",
                              address_, error.what());
  } catch (const DownloadError& error) {
    throw RequestError(error.what());
  }
}

std::vector<ServedModel> ServerClient::models() {
  HttpHead head;
  std::string body;
  exchange({.url = address_ + "/models", .token = key_},
           {[&](const HttpHead& found) {
              head = found;
              return true;
            },
            [&](std::string_view bytes) { return keep(body, bytes, kMaxListBytes); }});
  if (head.status != 200) refuse(head, body);
  const Json list = Json::parse(body, nullptr, false);
  std::vector<ServedModel> models;
  if (list.is_object() && list.contains("data") && list.at("data").is_array()) {
    for (const Json& model : list.at("data")) {
      if (!model.is_object() || !model.contains("id") || !model.at("id").is_string()) continue;
      const Json length = model.value("max_model_len", Json());
      models.push_back({.name = model.at("id"),
                        .max_length = length.is_number_unsigned() ? length.get<std::size_t>() : 0});
    }
  }
  require<RequestError>(!models.empty(),
                        "cannot chat with {}: expected a list of its models at {}/models, found none; check "
                        "the address, or name a model with --model",
                        address_, address_);
  return models;
}

void ServerClient::chat(const nlohmann::ordered_json& request,
                        const std::function<void(const Json&)>& receive,
                        const std::function<bool()>& goes_on) {
  HttpHead head;
  std::string refusal;
  bool is_done = false;
  bool is_stopped = false;
  EventStream events([&](const std::string& data) {
    if (is_done) return;
    if (data == "[DONE]") {
      is_done = true;
      return;
    }
    const Json chunk = Json::parse(data, nullptr, false);
    require<RequestError>(chunk.is_object(),
                          "the answer of {} broke off: expected events of JSON, found {}; check the address",
                          address_, data.substr(0, 100));
    if (chunk.contains("error") && !chunk.at("error").is_null()) {
      throw_error<RequestError>(
          "the answer of {} broke off: expected a complete answer, found an error of the server{}; ask "
          "again, and if the error repeats, read the server's log",
          address_, said(data));
    }
    receive(chunk);
  });
  const auto on_body = [&](std::string_view bytes) {
    if (head.status != 200 || !is_stream(head)) return keep(refusal, bytes, kMaxErrorBytes);
    events.read(bytes);
    return !is_done;
  };
  exchange(
      {.url = address_ + "/chat/completions", .token = key_, .json = json_text(request), .may_pause = true},
      {[&](const HttpHead& found) {
         head = found;
         return true;
       },
       on_body,
       [&] {
         is_stopped = !goes_on();
         return !is_stopped;
       }});
  if (is_stopped) return;
  if (head.status != 200) refuse(head, refusal);
  require<RequestError>(
      is_stream(head),
      "cannot chat with {}: expected a stream of events, found {}{}; check that this is the address of an "
      "API with OpenAI's chat completions, such as http://localhost:8080/v1",
      address_, head.field("content-type").empty() ? "none" : head.field("content-type"), said(refusal));
  require<RequestError>(
      is_done,
      "the answer of {} broke off: expected [DONE] at its end, found the end of the connection; ask again",
      address_);
}

void ServerClient::refuse(const HttpHead& head, const std::string& body) const {
  const auto [expected, advice] = [&]() -> std::pair<std::string, std::string> {
    switch (head.status) {
      case 401:
      case 403:
        return {key_.empty() ? "that no API key is needed" : "that the API key is valid",
                key_.find(':') == std::string::npos
                    ? "give the server's key in a file of --api-key-file, or in OPENAI_API_KEY"
                    : "the key has a colon; if it is NAME:KEY from the server's file, give only KEY"};
      case 404:
        return {"OpenAI's API and the model there",
                "check --model, and the address, which usually ends in /v1"};
      case 429:
        return {"a server with time", when_to_return(head)};
      case 503:
        return {"a server that is ready", when_to_return(head)};
      default:
        break;
    }
    if (head.status >= 300 && head.status < 400)
      return {"an answer", fmt::format("give the address that it leads to: {}", head.field("location"))};
    if (head.status >= 500)
      return {"an answer", "ask again, and if that does not help, look into the server's log"};
    return {"that the request is understood",
            "change what it complains about; /reset begins a new conversation, if this one is too long"};
  }();
  throw_error<RequestError>("cannot chat with {}: expected {}, found status {}{}; {}", address_, expected,
                            head.status, said(body), advice);
}

}  // namespace tp
