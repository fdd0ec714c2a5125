// Members that refer to state elsewhere, in the bodies of all APIs.
#include "runtime/api/state_elsewhere.h"

#include "runtime/api/answer_format.h"
#include "runtime/api/api_call.h"
#include "tests/expect_contains.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using Json = nlohmann::ordered_json;
using Form = ApiRequest::Form;
using Place = StateElsewhere::Place;

struct Api {
  const char* name;
  const char* list;  // member with the conversation, or null
  Json body;
  std::function<ApiCall(const Json&)> read;
};

const std::vector<Api>& apis() {
  static const std::vector<Api> all = {
      {"chat", "messages", Json::parse(R"({"messages": [{"role": "user", "content": "Hi"}]})"),
       [](const Json& body) { return read_openai_call(body, Form::chat_completion); }},
      {"completions",
       nullptr,
       {{"prompt", "Hi"}},
       [](const Json& body) { return read_openai_call(body, Form::text_completion); }},
      {"responses", "input", Json::parse(R"({"input": [{"role": "user", "content": "Hi"}]})"),
       [](const Json& body) { return read_responses_call(body); }},
      {"messages", "messages",
       Json::parse(R"({"max_tokens": 3, "messages": [{"role": "user", "content": "Hi"}]})"),
       [](const Json& body) { return read_messages_call(body); }}};
  return all;
}

std::optional<ApiError> error_of(const Api& api, const Json& body) {
  try {
    api.read(body);
  } catch (const RequestError& error) {
    return api_error_of(error);
  }
  return std::nullopt;
}

// A value for each member of the table, as clients send it.
const std::map<std::string, Json>& values() {
  static const std::map<std::string, Json> all = {
      {"thread", {{"type", "create"}}},
      {"thread_not_found", {{"type", "continue"}, {"previous_message_id", "msg_1"}}},
      {"previous_response_id", "resp_1"},
      {"conversation", {{"id", "conv_1"}}},
      {"prompt", {{"id", "pmpt_1"}, {"variables", {{"city", "Oslo"}}}}},
      {"cached_content", "cachedContents/1"},
      {"data_sources", Json::array({{{"type", "azure_search"}}})},
      {"file_ids", {"file_1"}},
      {"vector_store_ids", {"vs_1"}},
      {"tool_resources", {{"file_search", {{"vector_store_ids", {"vs_1"}}}}}},
      {"container", "container_1"},
      {"container_id", "cntr_1"},
      {"mcp_servers", Json::array({{{"type", "url"}, {"url", "https://x"}, {"name", "x"}}})},
      {"background", true},
      {"deferred", true},
      {"id", "msg_1"},
      {"encrypted_content", "gAAAAA"},
      {"audio", {{"id", "audio_1"}}},
      {"file_id", "file_1"},
      {"skills", Json::array({{{"type", "skill_reference"}, {"skill_id", "s"}}})},
      {"server_url", "https://x"},
      {"connector_id", "connector_dropbox"},
      {"mcp_server_name", "x"}};
  return all;
}

Json value_of(const StateElsewhere& row) {
  const auto by_code = values().find(std::string(row.code));
  return by_code != values().end() ? by_code->second : values().at(std::string(row.member));
}

// Returns bodies with the row's member at each possible place.
std::vector<Json> bodies_with(const StateElsewhere& row, const Api& api) {
  const std::string member(row.member);
  std::vector<Json> bodies;
  const auto add = [&](const std::function<void(Json&)>& change) { change(bodies.emplace_back(api.body)); };
  Json object = {{"type", row.type.empty() ? "x" : std::string(row.type)}, {member, value_of(row)}};
  if (row.place == Place::body) add([&](Json& body) { body[member] = value_of(row); });
  if (row.place == Place::tool) {
    add([&](Json& body) { body["tools"] = Json::array({object}); });
    add([&](Json& body) { body["tools"] = Json::array({{{"type", "shell"}, {"environment", object}}}); });
  }
  if (api.list == nullptr) return bodies;
  if (row.place == Place::item) {
    add([&](Json& body) {
      if (row.type.empty()) object = {{"role", "assistant"}, {"content", "Ok"}, {member, value_of(row)}};
      body[api.list].push_back(object);
    });
  }
  if (row.place == Place::part) {
    for (const char* inside : {"", "source", "file"}) {
      const Json part = *inside == '\0' ? object : Json{{"type", "document"}, {inside, object}};
      add([&](Json& body) { body[api.list][0]["content"] = Json::array({part}); });
    }
  }
  return bodies;
}

TEST(StateElsewhere, EveryApiRefusesEveryMemberOfTheTableByName) {
  for (const StateElsewhere& row : state_elsewhere()) {
    for (const Api& api : apis()) {
      for (const Json& body : bodies_with(row, api)) {
        SCOPED_TRACE(std::string(api.name) + ": " + body.dump());
        const std::optional<ApiError> error = error_of(api, body);
        ASSERT_TRUE(error) << "it was accepted";
        EXPECT_EQ(error->status, row.status);
        EXPECT_EQ(error->code, row.code);
        if (api.list == nullptr && row.member == "prompt") continue;  // a text is valid here
        EXPECT_CONTAINS(error->message, "`" + std::string(row.name()) + "`");
        EXPECT_CONTAINS(error->message, "; ");
        EXPECT_EQ(error->param.empty(), false);
      }
    }
  }
}

TEST(StateElsewhere, EmptyValuesAreAccepted) {
  for (const StateElsewhere& row : state_elsewhere()) {
    if (row.place != Place::body || row.member == "prompt") continue;
    for (const Api& api : apis()) {
      for (const Json& value : {Json(), Json(""), Json::array(), Json::object(), Json(false)}) {
        Json body = api.body;
        body[std::string(row.member)] = value;
        EXPECT_FALSE(error_of(api, body)) << api.name << body;
      }
    }
  }
}

// Results of other servers' tools belong to earlier answers, and a client can't change them. They are left
// out.
TEST(StateElsewhere, IdsInResultsOfOtherServersAreAccepted) {
  const Json result = Json::parse(
      R"({"type": "code_execution_tool_result", "tool_use_id": "s", "content": {"type": "code_execution_result",
      "content": [{"type": "code_execution_output", "file_id": "file_1"}]}})");
  Json body = apis().back().body;
  body["messages"].push_back(
      {{"role", "assistant"}, {"content", Json::array({result, {{"type", "text"}, {"text", "Done."}}})}});
  body["messages"].push_back({{"role", "user"}, {"content", "Thanks"}});
  EXPECT_FALSE(error_of(apis().back(), body));
  const Json automatic = {{"type", "code_interpreter"}, {"container", {{"type", "auto"}}}};
  for (const Api& api : apis()) {
    body = api.body;
    if (api.list != nullptr) body["tools"] = Json::array({automatic});
    EXPECT_FALSE(error_of(api, body)) << api.name;
  }
}

// Anthropic's client then sends the whole conversation without a thread.
TEST(StateElsewhere, RefusedThreadsHaveTheDetailsThatAnthropicsClientReads) {
  const Api& messages = apis().back();
  const auto refusal = [&](const Json& thread) {
    Json body = messages.body;
    body["thread"] = thread;
    const std::optional<ApiError> error = error_of(messages, body);
    return error ? make_messages_format()->error(*error).at("error") : Json::object();
  };
  const Json create = refusal(values().at("thread"));
  EXPECT_EQ(create.value("type", ""), "invalid_request_error");
  EXPECT_EQ(create.value("details", Json()),
            Json::parse(R"({"error_code": "thread_unsupported_request", "unsupported": ["thread"]})"));
  const Json next = refusal(values().at("thread_not_found"));
  EXPECT_EQ(next.value("type", ""), "not_found_error");
  EXPECT_EQ(next.value("details", Json()), Json::parse(R"({"error_code": "thread_not_found"})"));
}

}  // namespace
}  // namespace tp::test
