// Bodies of requests to the server, valid and invalid.

#include "runtime/api/api_call.h"

#include "runtime/api/api_error.h"
#include "runtime/api/request_fields.h"
#include "tests/expect_contains.h"
#include "tp/error.h"

#include <functional>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using Json = nlohmann::ordered_json;
using Form = ApiRequest::Form;

constexpr const char* kHello = R"([{"role": "user", "content": "Hello"}])";

ApiCall chat(const std::string& members) {
  return read_openai_call(
      parse_body(R"({"messages": )" + std::string(kHello) + (members.empty() ? "" : ", ") + members + "}"),
      Form::chat_completion);
}

ApiCall completion(const std::string& members) {
  return read_openai_call(parse_body("{" + members + "}"), Form::text_completion);
}

// Returns the error for a rejected body.
ApiError error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const RequestError& error) {
    return api_error_of(error);
  }
  ADD_FAILURE() << "it was taken";
  return {};
}

void set_fields_of(const ApiCall& call) {
  Request request;
  set_fields(call.prompts.front().settings, request);
}

TEST(ApiCall, AcceptsRequestsOfOfficialClients) {
  const ApiCall call =
      chat(R"("model": "m", "stream": true, "stream_options": {"include_usage": true}, "n": 2,
    "temperature": 0.5, "max_completion_tokens": 7, "max_tokens": null, "stop": null, "logit_bias": null, "tools": null,
    "tool_choice": null, "response_format": null, "user": "u", "metadata": {}, "store": false, "seed": 3,
    "service_tier": "auto", "unknown_member": {"a": [1]}, "reasoning_effort": null)");
  ASSERT_EQ(call.prompts.size(), 1U);
  EXPECT_TRUE(call.stream);
  EXPECT_TRUE(call.include_usage);
  const ApiRequest& request = call.prompts.front();
  EXPECT_EQ(request.facts.model, "m");
  Request settings;
  set_fields(request.settings, settings);
  EXPECT_EQ(settings.max_tokens, 7);
  EXPECT_EQ(settings.n, 2);
  EXPECT_EQ(settings.sampling.temperature, 0.5F);
  EXPECT_EQ(settings.sampling.seed, 3U);
}

TEST(ApiCall, AcceptsPromptsInAllFourForms) {
  EXPECT_EQ(completion(R"("prompt": "a")").prompts.front().text, "a");
  const ApiCall texts = completion(R"("prompt": ["a", "b"], "max_tokens": 3)");
  ASSERT_EQ(texts.prompts.size(), 2U);
  EXPECT_EQ(texts.prompts[1].text, "b");
  EXPECT_EQ(texts.prompts[1].settings.at("max_tokens"), 3);
  const ApiCall ids = completion(R"("prompt": [1, 2])");
  ASSERT_EQ(ids.prompts.size(), 1U);
  EXPECT_EQ(ids.prompts.front().ids, (std::vector<TokenId>{1, 2}));
  const ApiCall lists = completion(R"("prompt": [[1, 2], [3]])");
  ASSERT_EQ(lists.prompts.size(), 2U);
  EXPECT_EQ(lists.prompts[1].ids, (std::vector<TokenId>{3}));
}

TEST(ApiCall, GeneratesSixteenTokensOfACompletionByDefault) {
  EXPECT_EQ(completion(R"("prompt": "a")").usual_max_tokens, 16);
  EXPECT_EQ(chat("").usual_max_tokens, 0);
}

TEST(ApiCall, AsksForMoreSamplesToFindTheBest) {
  const ApiCall call = completion(R"("prompt": "a", "n": 2, "best_of": 5)");
  EXPECT_EQ(call.n, 2);
  EXPECT_EQ(call.best_of, 5);
  EXPECT_EQ(call.prompts.front().settings.at("n"), 5);
  EXPECT_EQ(completion(R"("prompt": "a", "best_of": 1)").best_of, 0);
}

TEST(ApiCall, RendersToolsThatTheModelMayUse) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}])";
  EXPECT_EQ(chat(tools).prompts.front().conversation->at("tools").size(), 1U);
  EXPECT_EQ(chat(tools + R"(, "tool_choice": "auto")").prompts.front().conversation->at("tools").size(), 1U);
  EXPECT_FALSE(chat(tools + R"(, "tool_choice": "none")").prompts.front().conversation->contains("tools"));
}

TEST(ApiCall, ReadsWhichToolsMustBeCalled) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f", "strict": true}}])";
  const auto rules = [&](const std::string& more) { return chat(tools + more).prompts.front().calls; };
  EXPECT_FALSE(rules("").required);
  EXPECT_FALSE(rules(R"(, "tool_choice": "auto")").required);
  EXPECT_TRUE(rules(R"(, "tool_choice": "required")").required);
  EXPECT_FALSE(rules(R"(, "tool_choice": "required")").has_one_call);
  EXPECT_TRUE(rules(R"(, "tool_choice": "required", "parallel_tool_calls": false)").has_one_call);
  const CallRules named = rules(R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})");
  EXPECT_TRUE(named.required && named.has_one_call);
  EXPECT_EQ(named.name, "f");
  EXPECT_TRUE(rules(R"(, "tool_choice": "any")").required);
  EXPECT_FALSE(rules(R"(, "tool_choice": {"type": "auto"})").required);
  EXPECT_EQ(rules(R"(, "tool_choice": {"function": {"name": "f"}})").name, "f");
  const std::string allowed =
      R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required",
      "tools": [{"type": "function", "function": {"name": "f"}}]}})";
  EXPECT_TRUE(rules(allowed).required);
  EXPECT_FALSE(rules(allowed).has_one_call);
  const auto of_messages = [](const std::string& choice) {
    return read_messages_call(parse_body(R"({"max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}],
      "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": )" +
                                         choice + "}"))
        .prompts.front()
        .calls;
  };
  EXPECT_FALSE(of_messages(R"({"type": "auto"})").required);
  EXPECT_TRUE(of_messages(R"({"type": "any"})").required);
  EXPECT_TRUE(of_messages(R"({"type": "any", "disable_parallel_tool_use": true})").has_one_call);
  EXPECT_EQ(of_messages(R"({"type": "tool", "name": "f"})").name, "f");
  const auto of_responses = [](const std::string& choice) {
    return read_responses_call(
               parse_body(R"({"input": "a", "tools": [{"type": "function", "name": "f"}], "tool_choice": )" +
                          choice + "}"))
        .prompts.front()
        .calls;
  };
  EXPECT_TRUE(of_responses(R"("required")").required);
  EXPECT_EQ(of_responses(R"({"type": "function", "name": "f"})").name, "f");
}

TEST(ApiCall, RejectsUnsupportedFieldsByName) {
  const std::string tool = R"([{"type": "function", "function": {"name": "f", "strict": 1}}])";
  const std::pair<const char*, std::string> cases[] = {
      {"response_format", R"("response_format": {"type": "xml"})"},
      {"response_format", R"("response_format": {"type": "json_schema", "json_schema": {}})"},
      {"guided_regex", R"("guided_regex": 5)"},
      {"guided_choice", R"("guided_choice": [1])"},
      {"structured_outputs", R"("structured_outputs": {"grammar": {}})"},
      {"structured_outputs", R"("structured_outputs": {"lark": "x"})"},
      {"tool_choice", R"("tool_choice": "required")"},
      {"tool_choice", R"("tool_choice": {"type": "function", "function": {"name": "f"}})"},
      {"tools", R"("tools": )" + tool},
  };
  for (const auto& [param, members] : cases) {
    const ApiError error = error_of([&, text = members] { chat(text); });
    EXPECT_EQ(error.status, 400) << members;
    EXPECT_EQ(error.param, param) << members;
    EXPECT_EQ(error.type(), "invalid_request_error");
  }
}

TEST(ApiCall, NamesTheMemberThatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"stream", R"("stream": "yes")"},
      {"stream_options", R"("stream_options": 3)"},
      {"include_usage", R"("stream": true, "stream_options": {"include_usage": 1})"},
      {"logprobs", R"("logprobs": 3)"},
      {"top_logprobs", R"("top_logprobs": 3)"},
      {"chat_template_kwargs", R"("chat_template_kwargs": [])"},
      {"tools", R"("tools": "f")"},
      {"tool_choice", R"("tool_choice": {"type": "allowed_tools"})"},
  };
  for (const auto& [param, members] : cases)
    EXPECT_EQ(error_of([text = std::string(members)] { chat(text); }).param, param) << members;
  EXPECT_EQ(error_of([] { completion(R"("prompt": "a", "best_of": 1, "n": 2)"); }).param, "best_of");
  EXPECT_EQ(error_of([] { completion(R"("prompt": {})"); }).param, "prompt");
  EXPECT_EQ(error_of([] { completion(R"("echo": true)"); }).param, "prompt");
  EXPECT_EQ(error_of([] { completion(R"("prompt": "a", "best_of": 3, "stream": true)"); }).param, "best_of");
}

// The engine compiles a constraint once for all prompts of a call.
TEST(ApiCall, ConstraintsAreNotCompiledWhileABodyIsRead) {
  const ApiCall call = completion(R"("prompt": ["a", "b"], "guided_regex": "(")");
  ASSERT_EQ(call.prompts.size(), 2U);
  EXPECT_EQ(call.prompts[1].constraint_member, "guided_regex");
  EXPECT_EQ(call.prompts[1].settings.at("regex"), "(");
}

TEST(ApiCall, RefusesToRepeatLargeMembersForManyPrompts) {
  std::string prompts = "\"a\"";
  for (int i = 1; i < 2048; ++i) prompts += ", \"a\"";
  const auto members = [&](std::size_t size) {
    return "\"prompt\": [" + prompts + "], \"guided_regex\": \"" + std::string(size, 'a') + "\"";
  };
  EXPECT_EQ(error_of([&] { completion(members(1 << 16)); }).param, "prompt");
  EXPECT_EQ(completion(members(1 << 10)).prompts.size(), 2048U);
}

// Python's clients write whole numbers as floats, too.
TEST(ApiCall, NegativeSeedsAreTheSameInEitherNotation) {
  const auto seed = [](const std::string& number) {
    Request request;
    set_fields(completion(R"("prompt": "a", "seed": )" + number).prompts.front().settings, request);
    return request.sampling.seed;
  };
  EXPECT_EQ(seed("-7"), 18446744073709551609ULL);
  EXPECT_EQ(seed("-7.0"), 18446744073709551609ULL);
  EXPECT_EQ(seed("-1.0"), std::nullopt);
}

TEST(ApiCall, RejectsBodiesThatAreNotJson) {
  for (const char* text : {"", "{", "[]", "3", "{\"a\": 1}x", "{\"a\": \"\xff\"}", "{'a': 1}"})
    EXPECT_EQ(error_of([=] { parse_body(text); }).status, 400) << text;
}

TEST(ApiCall, RefusesDeepNestingAtOnce) {
  EXPECT_EQ(error_of([] { parse_body("{\"a\": " + std::string(100'000, '[')); }).status, 400);
  EXPECT_EQ(error_of([] { parse_body(std::string(100'000, '{')); }).status, 400);
  EXPECT_NO_THROW(
      parse_body("{\"a\": \"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"}"));
}

TEST(ApiCall, ReadsOpenAisResponses) {
  const ApiCall call = read_responses_call(parse_body(R"({"model": "m", "instructions": "Be short.",
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
              {"type": "reasoning", "summary": []},
              {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
              {"type": "function_call_output", "call_id": "c", "output": "4"}],
    "max_output_tokens": 9, "stream": true, "tools": [{"type": "function", "name": "f", "parameters": {}}],
    "text": {"format": {"type": "text"}}, "store": true, "reasoning": {"effort": "low"}})"));
  const Json messages = call.prompts.front().conversation->at("messages");
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages[0], Json::parse(R"({"role": "system", "content": "Be short."})"));
  EXPECT_EQ(messages[1], Json::parse(R"({"role": "user", "content": "Hi"})"));
  EXPECT_EQ(messages[2].at("tool_calls")[0].at("function").at("name"), "f");
  EXPECT_EQ(messages[3].at("role"), "tool");
  EXPECT_EQ(call.prompts.front().settings.at("max_tokens"), 9);
  EXPECT_EQ(call.prompts.front().conversation->at("tools")[0].at("function").at("name"), "f");
  EXPECT_TRUE(call.stream);
}

// Thinking, text and calls become one message, as in a chat.
TEST(ApiCall, PutsItemsOfResponsesTogetherToMessages) {
  const ApiCall call = read_responses_call(parse_body(R"({"input": [{"role": "user", "content": "Hi"},
    {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "short"}],
     "content": [{"type": "reasoning_text", "text": "Hm."}], "encrypted_content": null},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
    {"type": "function_call", "call_id": "a", "name": "f", "namespace": "n", "arguments": "{}"},
    {"type": "custom_tool_call", "call_id": "b", "name": "patch", "input": "+x"},
    {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "4"}]},
    {"type": "custom_tool_call_output", "call_id": "b", "output": "done"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Four."}]},
    {"type": "local_shell_call", "id": "c", "call_id": "c", "action": {"command": ["ls"]}},
    {"type": "local_shell_call_output", "id": "c", "output": "a.txt"},
    {"type": "mcp_call", "id": "d", "name": "g", "arguments": "{}", "output": "5", "error": null},
    {"type": "image_generation_call", "id": "e", "result": "..."}],
    "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
              {"type": "function", "name": "f", "parameters": null}]})"));
  EXPECT_EQ(call.prompts.front().conversation->at("messages"),
            Json::parse(R"([{"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "n__f", "arguments": "{}"}},
      {"id": "b", "type": "function", "function": {"name": "patch", "arguments": {"input": "+x"}}}]},
    {"role": "tool", "tool_call_id": "a", "content": "4"},
    {"role": "tool", "tool_call_id": "b", "content": "done"},
    {"role": "assistant", "content": null, "reasoning_content": "Four.", "tool_calls": [
      {"id": "c", "type": "function", "function": {"name": "local_shell", "arguments": {"command": ["ls"]}}}]},
    {"role": "tool", "tool_call_id": "c", "content": "a.txt"},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "d", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "d", "content": "5"}])"));
  EXPECT_EQ(call.prompts.front().conversation->at("tools"),
            Json::parse(R"([{"type": "function", "function": {"name": "n__f"}},
                            {"type": "function", "function": {"name": "f"}}])"));
  EXPECT_EQ(call.namespaces.at("n__f").name, "f");
  ASSERT_EQ(call.warnings.size(), 1U);
  EXPECT_CONTAINS(call.warnings.front(), "image_generation_call");
}

// A client may write anything as a type.
TEST(ApiCall, WarningsAreFitForALog) {
  const ApiCall call = read_responses_call(
      parse_body(R"({"input": "a", "tools": [{"type": "x\ny`\u001b[0m)" + std::string(500, 'z') + R"("}]})"));
  ASSERT_EQ(call.warnings.size(), 1U);
  EXPECT_LT(call.warnings.front().size(), 200U);
  EXPECT_CONTAINS(call.warnings.front(), "x?y???0mz");
}

TEST(ApiCall, RefusalsHaveShortReasonsWithoutTexts) {
  const auto reason = [](const std::string& members) {
    return short_reason(error_of([&] { set_fields_of(chat(members)); }));
  };
  EXPECT_EQ(reason(R"("temperature": "secret")"), "expected a number");
  EXPECT_EQ(reason(R"("logprobs": "secret")"), "expected true or false");
  EXPECT_EQ(reason(R"("tools": [{"type": "function", "function": {"name": "secret", "strict": 3}}])"),
            "expected true or false as `strict`");
  EXPECT_EQ(reason(R"("tools": [{"type": "function", "function": {"name": "expected secret"}, "x": 1}], )"
                   R"("tool_choice": "expected secret")")
                .find("secret"),
            std::string::npos);
  const auto of_message = [](const std::string& message) {
    return short_reason({.status = 400, .message = message});
  };
  EXPECT_EQ(of_message("there is no `expected secret`; expected `a`, found none"), "expected `a`");
  EXPECT_EQ(of_message("found \"a \\\" expected secret\", expected a number"), "expected a number");
  EXPECT_EQ(of_message("found \"expected secret..."), "invalid_request_error");
  EXPECT_EQ(short_reason(error_of([] { parse_body("{secret"); })), "invalid_json");
  EXPECT_EQ(short_reason({.status = 405, .message = "secret"}), "invalid_request_error");
}

TEST(ApiCall, WarningsAreFew) {
  std::string tools;
  for (int i = 0; i < 1000; ++i)
    tools += std::string(i == 0 ? "" : ", ") + R"({"type": "type_)" + std::to_string(i % 500) + "\"}";
  const ApiCall call = read_responses_call(parse_body(R"({"input": "a", "tools": [)" + tools + "]}"));
  ASSERT_EQ(call.warnings.size(), 17U);
  EXPECT_CONTAINS(call.warnings[15], "type_15");
  EXPECT_EQ(call.warnings[16], "`tools`: tools of other types were left out, too");
}

TEST(ApiCall, RefusesResponsesThatNeedAMemory) {
  const ApiError error = error_of(
      [] { read_responses_call(parse_body(R"({"input": "a", "previous_response_id": "resp_1"})")); });
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, "previous_response_id");
}

TEST(ApiCall, ReadsAnthropicsMessages) {
  const ApiCall call = read_messages_call(parse_body(R"({"model": "m", "max_tokens": 5,
    "system": [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "Ok"},
                                        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "4"}]},
                                   {"type": "text", "text": "And?"}]}],
    "stop_sequences": ["END"], "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "auto"}})"));
  const Json messages = call.prompts.front().conversation->at("messages");
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[0].at("content"), "Be short.");
  EXPECT_EQ(messages[2].at("content"), "Ok");
  EXPECT_EQ(messages[2].at("tool_calls")[0].at("function").at("name"), "f");
  EXPECT_EQ(messages[3].at("role"), "tool");
  EXPECT_EQ(messages[3].at("content"), "4");
  EXPECT_EQ(messages[4].at("content"), "And?");
  EXPECT_EQ(call.prompts.front().settings.at("stop"), nlohmann::json({"END"}));
  EXPECT_EQ(
      error_of([] {
        read_messages_call(parse_body(
            R"({"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]})"));
      }).status,
      400);
}

TEST(ApiCall, ReadsHowAModelIsToThinkAndToCall) {
  const ApiRequest request =
      chat(R"("reasoning_effort": "none", "max_thinking_tokens": 7, "parallel_tool_calls": false,
    "chat_template_kwargs": {"x": 1})")
          .prompts.front();
  EXPECT_EQ(request.conversation->at("reasoning_effort"), "none");
  EXPECT_EQ(request.conversation->at("enable_thinking"), false);
  EXPECT_EQ(request.settings.at("max_thinking_tokens"), 7);
  EXPECT_TRUE(request.calls.has_one_call);
  EXPECT_EQ(chat(R"("thinking_token_budget": 3)").prompts.front().settings.at("max_thinking_tokens"), 3);
  EXPECT_EQ(chat(R"("reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": true})")
                .prompts.front()
                .conversation->at("enable_thinking"),
            true);
  EXPECT_FALSE(chat("").prompts.front().calls.has_one_call);
  for (const char* members : {R"("reasoning_effort": 3)", R"("parallel_tool_calls": "no")"})
    EXPECT_EQ(error_of([=] { chat(members); }).status, 400) << members;
  EXPECT_EQ(
      error_of([] { chat(R"("tools": [{"type": "function", "function": {"parameters": {}}}])"); }).param,
      "tools");
}

TEST(ApiCall, RepeatsTheRequestInAResponse) {
  const ApiCall call = read_responses_call(parse_body(R"({"input": "a", "instructions": "Be short.",
    "tools": [{"type": "function", "name": "f", "parameters": {}}], "metadata": {"a": "b"}, "parallel_tool_calls": false})"));
  const Json repeated = Json::parse(call.repeated);
  EXPECT_EQ(repeated.at("instructions"), "Be short.");
  EXPECT_EQ(repeated.at("tools")[0].at("name"), "f");
  EXPECT_EQ(repeated.at("metadata"), Json::parse(R"({"a": "b"})"));
  EXPECT_EQ(repeated.at("parallel_tool_calls"), false);
  EXPECT_EQ(repeated.at("tool_choice"), "auto");
  EXPECT_TRUE(call.prompts.front().calls.has_one_call);
}

TEST(ApiCall, ReadsAnthropicsThinking) {
  const auto read = [](const std::string& thinking) {
    return read_messages_call(parse_body(R"({"max_tokens": 5, "messages": [{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm", "signature": ""}, {"type": "text", "text": "Ok"}]},
      {"role": "user", "content": "So?"}], "thinking": )" +
                                         thinking + "}"))
        .prompts.front();
  };
  const ApiRequest enabled = read(R"({"type": "enabled", "budget_tokens": 9})");
  EXPECT_EQ(enabled.settings.at("max_thinking_tokens"), 9);
  EXPECT_EQ(enabled.conversation->at("enable_thinking"), true);
  EXPECT_EQ(enabled.conversation->at("messages")[1].at("reasoning_content"), "Hm");
  EXPECT_EQ(read(R"({"type": "disabled"})").conversation->at("enable_thinking"), false);
  EXPECT_FALSE(read(R"({"type": "adaptive"})").conversation->contains("enable_thinking"));
  for (const char* wrong :
       {R"({"type": "enabled"})", R"({"type": "enabled", "budget_tokens": 0})", R"({"type": "x"})", "3"})
    EXPECT_EQ(error_of([=] { read(wrong); }).param, "thinking") << wrong;
}

}  // namespace
}  // namespace tp::test
