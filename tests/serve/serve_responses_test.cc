// Members of /v1/responses besides text: log-probabilities, penalties, and members that clients require.
#include "tests/serve/tool_requests.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

const json kScored = json::parse(R"({"input": "x", "max_output_tokens": 5, "temperature": 0,
  "include": ["message.output_text.logprobs"], "top_logprobs": 3})");

std::string joined_tokens(const json& logprobs) {
  std::string text;
  for (const json& entry : logprobs) {
    for (const json& byte : entry.at("bytes")) text += static_cast<char>(byte.get<int>());
  }
  return text;
}

std::string stripped(const std::string& text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \n"), text.size());
  return text.substr(begin, text.find_last_not_of(" \n") + 1 - begin);
}

json text_part(const json& response) {
  for (const json& item : response.at("output")) {
    if (item.at("type") == "message") return item.at("content").at(0);
  }
  ADD_FAILURE() << "no text: " << response;
  return {};
}

// Returns the log-probabilities of a stream's deltas. Checks that the events at the end of the text repeat
// them.
json expect_streamed_logprobs(const HttpReply& stream) {
  json deltas = json::array();
  json done, last;
  for (const json& event : stream.chunks()) {
    const std::string type = event.at("type");
    if (type == "response.output_text.delta") {
      EXPECT_EQ(joined_tokens(event.at("logprobs")), event.at("delta")) << event;
      deltas.insert(deltas.end(), event.at("logprobs").begin(), event.at("logprobs").end());
    }
    if (type == "response.output_text.done") done = event.at("logprobs");
    if (event.contains("response")) last = event.at("response");
  }
  EXPECT_EQ(done, deltas);
  EXPECT_EQ(text_part(last).at("logprobs"), deltas);
  return deltas;
}

TEST_F(ServeApiAlone, ResponsesHaveTheLogProbabilitiesOfTheirText) {
  const json whole = server().post("/v1/responses", kScored).json();
  const json part = text_part(whole);
  const json logprobs = part.at("logprobs");
  ASSERT_EQ(logprobs.size(), 5U) << whole;
  EXPECT_EQ(joined_tokens(logprobs), part.at("text"));
  EXPECT_EQ(logprobs[0].at("top_logprobs").size(), 3U);
  EXPECT_EQ(whole.at("top_logprobs"), 3);
  const json chat = {{"messages", {{{"role", "user"}, {"content", "x"}}}},
                     {"max_tokens", 5},
                     {"temperature", 0},
                     {"logprobs", true},
                     {"top_logprobs", 3}};
  EXPECT_EQ(server().post("/v1/chat/completions", chat).json()["choices"][0]["logprobs"]["content"],
            logprobs);
  json streamed = kScored;
  streamed["stream"] = true;
  EXPECT_EQ(expect_streamed_logprobs(server().post("/v1/responses", streamed)), logprobs);
  json plain = kScored;
  plain.erase("include");
  plain.erase("top_logprobs");
  EXPECT_EQ(text_part(server().post("/v1/responses", plain).json()).at("logprobs"), json::array());
}

// Tokens of thinking, markers and calls do not belong to the text.
TEST(ServeResponses, LogProbabilitiesCoverOnlyTheText) {
  const ScriptedModel model;
  ServedProgram server(kNoMpirun, {"--model", model.folder.path().string()});
  for (const auto& [script, tokens] : tool_scripts()) {
    SCOPED_TRACE(script);
    json body = kScored;
    body.update(
        {{"max_output_tokens", 200},
         {"chat_template_kwargs", {{"script", script}}},
         {"tools",
          {{{"type", "function"}, {"name", "get_weather"}}, {{"type", "function"}, {"name", "get_time"}}}}});
    const json whole = server.post("/v1/responses", body).json();
    body["stream"] = true;
    json all = json::array();
    for (const json& item : whole.at("output")) {
      if (item.at("type") != "message") continue;
      const json part = item.at("content").at(0);
      // The message's text is stripped of white space at both ends, but its tokens are not.
      EXPECT_EQ(stripped(joined_tokens(part.at("logprobs"))), part.at("text")) << part;
      all.push_back(part.at("logprobs"));
    }
    json streamed = json::array();
    for (const json& event : server.post("/v1/responses", body).chunks()) {
      if (event.at("type") == "response.output_text.done") streamed.push_back(event.at("logprobs"));
    }
    EXPECT_EQ(streamed, all);
  }
  server.end();
}

TEST_F(ServeApiAlone, ResponsesHonourPenaltiesAndBiases) {
  const json plain = {{"input", "Tell me a story"}, {"max_output_tokens", 40}, {"temperature", 0}};
  const std::string usual = text_part(server().post("/v1/responses", plain).json()).at("text");
  for (const json& setting :
       {json{{"presence_penalty", 2}}, json{{"frequency_penalty", 2}}, json{{"logit_bias", {{"20", 100}}}}}) {
    json body = plain;
    body.update(setting);
    const json response = server().post("/v1/responses", body).json();
    json chat = {{"messages", {{{"role", "user"}, {"content", "Tell me a story"}}}},
                 {"max_tokens", 40},
                 {"temperature", 0}};
    chat.update(setting);
    const json expected =
        server().post("/v1/chat/completions", chat).json()["choices"][0]["message"]["content"];
    EXPECT_EQ(text_part(response).at("text"), expected) << setting;
    // The presence penalty alone does not change this text.
    if (!setting.contains("presence_penalty")) {
      EXPECT_NE(text_part(response).at("text"), usual) << setting;
    }
    for (const char* name : {"presence_penalty", "frequency_penalty"})
      EXPECT_EQ(response.at(name), setting.value(name, 0)) << setting;
  }
}

// The required members of ResponseResource in https://www.openresponses.org/specification
constexpr const char* kRequired[] = {"id",
                                     "object",
                                     "created_at",
                                     "completed_at",
                                     "status",
                                     "model",
                                     "instructions",
                                     "incomplete_details",
                                     "output",
                                     "error",
                                     "tools",
                                     "tool_choice",
                                     "truncation",
                                     "parallel_tool_calls",
                                     "text",
                                     "top_p",
                                     "temperature",
                                     "presence_penalty",
                                     "frequency_penalty",
                                     "top_logprobs",
                                     "reasoning",
                                     "usage",
                                     "max_output_tokens",
                                     "max_tool_calls",
                                     "store",
                                     "background",
                                     "service_tier",
                                     "metadata",
                                     "safety_identifier",
                                     "prompt_cache_key",
                                     "previous_response_id"};

TEST_F(ServeApiAlone, ResponsesHaveTheMembersThatOpenResponsesRequires) {
  json body = {{"input", "x"},
               {"max_output_tokens", 1},
               {"safety_identifier", "person"},
               {"prompt_cache_key", "key"},
               {"max_tool_calls", 3},
               {"stop", {"a", "b", "c", "d", "e"}}};
  const json whole = server().post("/v1/responses", body).json();
  for (const char* name : kRequired) EXPECT_TRUE(whole.contains(name)) << name;
  EXPECT_EQ(whole.at("safety_identifier"), "person");
  EXPECT_EQ(whole.at("prompt_cache_key"), "key");
  EXPECT_EQ(whole.at("max_tool_calls"), 3);
  EXPECT_EQ(whole.at("background"), false);
  body["stream"] = true;
  for (const json& event : server().post("/v1/responses", body).chunks()) {
    if (!event.contains("response")) continue;
    for (const char* name : kRequired) EXPECT_TRUE(event.at("response").contains(name)) << name;
  }
}

TEST(ServeResponses, ACompleteResponseHasItsTimeAndSealedThinking) {
  const ScriptedModel model;
  ServedProgram server(kNoMpirun, {"--model", model.folder.path().string()});
  const auto ask = [&](const json& input) {
    return json{{"input", input}, {"temperature", 0}, {"chat_template_kwargs", {{"script", "call"}}}};
  };
  const json whole = server.post("/v1/responses", ask("Hi")).json();
  EXPECT_EQ(whole.at("status"), "completed");
  EXPECT_GE(whole.at("completed_at"), whole.at("created_at"));
  const json thoughts = whole.at("output").at(0);
  ASSERT_EQ(thoughts.at("type"), "reasoning") << whole;
  // The AI SDK sends back only `encrypted_content`.
  const json kept = {{"type", "reasoning"},
                     {"summary", json::array()},
                     {"encrypted_content", thoughts.at("encrypted_content")}};
  const json user = {{"role", "user"}, {"content", "Hi"}};
  const json counted = server.post("/v1/responses", ask({user, kept, user})).json();
  const json without = server.post("/v1/responses", ask({user, user})).json();
  EXPECT_GT(counted.at("usage").at("input_tokens"), without.at("usage").at("input_tokens"));
  server.end();
}

}  // namespace
}  // namespace tp::test
