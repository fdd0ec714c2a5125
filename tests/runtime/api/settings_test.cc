// Settings of requests in the bodies of all APIs.
#include "runtime/api/api_call.h"
#include "runtime/api/api_error.h"
#include "runtime/api/request_fields.h"
#include "runtime/api/responses_items.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using Json = nlohmann::ordered_json;
using Form = ApiRequest::Form;
using Reader = std::function<ApiCall(Json)>;

const Json kHello = Json::parse(R"([{"role": "user", "content": "Hello"}])");

ApiCall read_chat(Json body) {
  body["messages"] = kHello;
  return read_openai_call(std::move(body), Form::chat_completion);
}

const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> all = {{"chat", read_chat},
                                                    {"completions",
                                                     [](Json body) {
                                                       body["prompt"] = "Hello";
                                                       return read_openai_call(std::move(body),
                                                                               Form::text_completion);
                                                     }},
                                                    {"responses",
                                                     [](Json body) {
                                                       body["input"] = "Hello";
                                                       return read_responses_call(body);
                                                     }},
                                                    {"messages", [](Json body) {
                                                       body["messages"] = kHello;
                                                       if (!body.contains("max_tokens"))
                                                         body["max_tokens"] = 9;
                                                       return read_messages_call(body);
                                                     }}};
  return all;
}

ApiError error_of(const Reader& read, const Json& body) {
  try {
    read(body);
  } catch (const RequestError& error) {
    return api_error_of(error);
  }
  ADD_FAILURE() << "it was accepted: " << body;
  return {};
}

// A value for each setting that chats have under its own name.
const Json kSettings = Json::parse(R"({"temperature": 0.5, "top_p": 0.5, "top_k": 7, "min_p": 0.25,
  "presence_penalty": 0.5, "frequency_penalty": 1.5, "repetition_penalty": 1.25, "logit_bias": {"5": 2},
  "seed": 3, "min_tokens": 2, "stop_token_ids": [4], "include_stop_str_in_output": true, "ignore_eos": true,
  "bad_words": ["x"], "priority": 2, "cache_salt": "s", "cache_prompt": false, "speculate": false,
  "max_thinking_tokens": 8, "steps": 2, "block_length": 4, "unmask": "confidence", "threshold": 0.5,
  "unmask_cache": "none"})");

TEST(Settings, ForChatsWorkInEveryApi) {
  for (const auto& [name, value] : kSettings.items()) {
    for (const auto& [api, read] : readers()) {
      const ApiCall call = read({{name, value}});
      EXPECT_EQ(call.prompts.front().settings.value(name, nlohmann::json()), nlohmann::json(value))
          << api << ": " << name;
    }
  }
}

TEST(Settings, SaltsAreShort) {
  Request request;
  set_fields({{"cache_salt", std::string(1024, 's')}}, request);
  EXPECT_EQ(request.cache_salt.size(), 1024U);
  EXPECT_EQ(test::error_of<RequestError>([&] {
              set_fields({{"cache_salt", std::string(1025, 's')}}, request);
            }),
            "`cache_salt`: expected at most 1024 bytes, found 1025; use a hash of the text");
}

// They stay in memory until the answer ends.
TEST(Settings, ThatAResponseRepeatsAreBounded) {
  const auto error_with = [](const char* name, const Json& value) {
    return error_of(readers().at("responses"), {{name, value}});
  };
  const std::string large(std::size_t{64} << 10, 'x');
  const ApiError metadata = error_with("metadata", {{"a", large}});
  EXPECT_EQ(metadata.status, 400);
  EXPECT_EQ(metadata.param, "metadata");
  EXPECT_CONTAINS(metadata.message, "expected at most 65536 bytes of JSON, found 65544");
  EXPECT_EQ(error_with("user", Json::array({std::string(std::size_t{1} << 20, 'x')})).param, "user");
  EXPECT_EQ(error_with("text", {{"verbosity", std::string(std::size_t{1} << 20, 'x')}}).param, "text");
}

TEST(Settings, LimitBadWordsOfAllPromptsTogether) {
  const Reader read = [](const Json& body) { return read_openai_call(body, Form::text_completion); };
  const auto body_of = [](std::size_t prompts) {
    return Json{{"prompt", std::vector<std::string>(prompts, "a")},
                {"bad_words", std::vector<std::string>(1000, "x")}};
  };
  EXPECT_EQ(read(body_of(8)).prompts.size(), 8U);
  EXPECT_EQ(error_of(read, body_of(9)).param, "bad_words");
}

TEST(Settings, ResponsesAskForLogProbabilities) {
  const auto logprobs = [](const Json& body) {
    return readers().at("responses")(body).prompts.front().settings.value("logprobs", -1);
  };
  const Json include = Json::array({"message.output_text.logprobs"});
  EXPECT_EQ(logprobs(Json::object()), -1);
  EXPECT_EQ(logprobs({{"include", {"reasoning.encrypted_content"}}}), -1);
  EXPECT_EQ(logprobs({{"include", include}}), 0);
  EXPECT_EQ(logprobs({{"include", include}, {"top_logprobs", 3}}), 3);
  EXPECT_EQ(logprobs({{"top_logprobs", 3}}), 3);
  EXPECT_EQ(logprobs({{"top_logprobs", 0}}), -1);
  for (const Json& wrong : {Json(21), Json(-1), Json("x")})
    EXPECT_EQ(error_of(readers().at("responses"), {{"top_logprobs", wrong}}).param, "top_logprobs");
  EXPECT_EQ(error_of(readers().at("responses"), {{"include", "x"}}).param, "include");
}

// Anthropic's API fills its cache with max_tokens 0, and a text completion may only echo.
TEST(Settings, AChatHasAtLeastOneToken) {
  EXPECT_EQ(error_of(readers().at("chat"), {{"max_tokens", 0}}).param, "max_tokens");
  EXPECT_EQ(error_of(readers().at("chat"), {{"max_completion_tokens", 0}}).param, "max_completion_tokens");
  EXPECT_EQ(error_of(readers().at("responses"), {{"max_output_tokens", 0}}).param, "max_output_tokens");
  for (const char* api : {"messages", "completions"})
    EXPECT_EQ(readers().at(api)({{"max_tokens", 0}}).prompts.front().settings.at("max_tokens"), 0) << api;
}

TEST(Settings, APromptIsNotAListInAList) {
  for (const Json& prompt : {Json::parse(R"([[["a"]]])"), Json::parse(R"([["a"]])"), Json::parse("[[[1]]]"),
                             Json::parse(R"(["a", {}])")}) {
    const ApiError error = error_of(
        [](const Json& body) { return read_openai_call(body, Form::text_completion); }, {{"prompt", prompt}});
    EXPECT_EQ(error.param, "prompt") << prompt;
    EXPECT_EQ(error.status, 400) << prompt;
  }
}

TEST(Settings, AToolInTheFormOfResponsesIsExplained) {
  const ApiError error = error_of(
      readers().at("chat"),
      {{"tools", Json::array({{{"type", "function"}, {"name", "f"}, {"parameters", Json::object()}}})}});
  EXPECT_EQ(error.param, "tools");
  EXPECT_TRUE(error.message.ends_with("; put the function's members into `function`")) << error.message;
}

// Some clients keep only `encrypted_content` of the thinking.
TEST(Settings, SealedThinkingIsReadBack) {
  const auto messages = [](const std::string& sealed) {
    const Json item = {{"type", "reasoning"},
                       {"summary", Json::array({{{"type", "summary_text"}, {"text", ""}}})},
                       {"encrypted_content", sealed}};
    const Json answer = {{"type", "message"}, {"role", "assistant"}, {"content", "Ok"}};
    return read_responses_call({{"input", Json::array({kHello[0], item, answer})}})
        .prompts.front()
        .conversation->at("messages");
  };
  const std::string sealed = sealed_thoughts("Hm. \xE2\x82\xAC");
  EXPECT_EQ(sealed.find("Hm"), std::string::npos);
  EXPECT_EQ(messages(sealed).at(1).value("reasoning_content", ""), "Hm. \xE2\x82\xAC");
  for (const std::string& foreign : {std::string("gAAAAABo"), sealed.substr(0, sealed.size() - 1),
                                     sealed_thoughts("\xFF"), std::string("tp1:"), std::string()})
    EXPECT_FALSE(messages(foreign).at(1).contains("reasoning_content")) << foreign;
}

}  // namespace
}  // namespace tp::test
