#include "runtime/api/batch_line.h"

#include "runtime/api/request_fields.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tp/error.h"

#include <utility>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using Form = ApiRequest::Form;

ApiRequest read(const json& line) { return read_batch_line(line.dump(), "here:1"); }

ApiRequest chat(json members) {
  if (!members.contains("messages")) members["messages"] = {{{"role", "user"}, {"content", "Hi"}}};
  return read({{"custom_id", "a"}, {"url", "/v1/chat/completions"}, {"body", members}});
}

ApiRequest completion(json members) {
  if (!members.contains("prompt")) members["prompt"] = "Hi";
  return read({{"custom_id", "a"}, {"url", "/v1/completions"}, {"body", members}});
}

TEST(BatchLine, HasOnePromptAndSettings) {
  const ApiRequest text = read({{"prompt", "Hi"}, {"id", 7}, {"max_tokens", 3}, {"stop", "x"}});
  EXPECT_EQ(text.error, "");
  EXPECT_EQ(text.facts.form, Form::line);
  EXPECT_EQ(text.facts.id, 7);
  EXPECT_EQ(text.text, "Hi");
  EXPECT_EQ(text.settings, json({{"max_tokens", 3}, {"stop", "x"}}));
  EXPECT_EQ(read({{"ids", {1, 2}}}).ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(read({{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}).conversation->at("messages").size(),
            1U);
}

TEST(BatchLine, ReportsErrorsAndKeepsTheId) {
  const std::vector<std::pair<json, std::string>> cases = {
      {{{"id", 7}},
       "expected one of a text in `prompt`, token ids in `ids` and a conversation in `messages`, "
       "found none"},
      {{{"id", 7}, {"prompt", "x"}, {"ids", {1}}}, "found several"},
      {{{"id", 7}, {"prompt", 3}}, "`prompt` must be a text, found number"},
      {{{"id", 7}, {"ids", {1, 2.5}}}, "expected token ids (whole numbers from 0), found 2.5 at place 1"},
      {{{"id", 7}, {"ids", "1"}}, "expected a JSON list of token ids, found string"},
      {{{"id", 7}, {"messages", "x"}}, "`messages`: expected a list of at least one message, found string"},
      {{{"id", 7}, {"messages", json::array()}},
       "`messages`: expected a list of at least one message, found none"},
      {{{"id", 7}, {"messages", {{{"content", "x"}}}}}, "`messages`: message 1 has no `role`"},
      {{{"id", 7}, {"messages", {{{"role", "user"}}}}}, "`messages`: message 1 has no `content`"},
  };
  for (const auto& [line, message] : cases) {
    const ApiRequest request = read(line);
    EXPECT_CONTAINS(request.error, message);
    EXPECT_EQ(request.facts.id, 7);
    EXPECT_EQ(request.facts.where, "here:1");
  }
  EXPECT_CONTAINS(read_batch_line("{\"prompt\": 1", "here:2").error, "expected a JSON object (");
  EXPECT_CONTAINS(read_batch_line("[]", "here:2").error, "such as {\"prompt\": \"...\"}, found array");
  EXPECT_CONTAINS(read_batch_line(std::string(1000, '['), "here:2").error, "nested deeper than 64 levels");
}

TEST(BatchLine, RefusesAnIdThatNumbersCannotHold) {
  for (const std::string id : {"12345678901234567890123", "-9223372036854775809", "1e300",
                               R"(["a", 12345678901234567890123])", R"({"a": 18446744073709551616})"}) {
    const ApiRequest request = read_batch_line(R"({"prompt": "x", "id": )" + id + "}", "here:1");
    EXPECT_CONTAINS(request.error, "`id`: expected a whole number of at most 64 bits or a text, found ");
    EXPECT_CONTAINS(request.error, "write it as a text");
    EXPECT_TRUE(request.facts.id.is_null()) << "it would be another one";
  }
  for (const std::string id :
       {"18446744073709551615", "-9223372036854775808", "1.5", "[0.1]", "\"12345678901234567890123\""}) {
    const ApiRequest request = read_batch_line(R"({"prompt": "x", "id": )" + id + "}", "here:1");
    EXPECT_EQ(request.error, "");
    EXPECT_EQ(request.facts.id.dump(), id);
  }
}

TEST(OpenAIBatchLine, BecomesARequestWithItsSettings) {
  const ApiRequest request = chat({{"model", "m"},
                                   {"max_tokens", 3},
                                   {"max_completion_tokens", 5},
                                   {"temperature", 0.5},
                                   {"top_p", 0.9},
                                   {"n", 2},
                                   {"seed", 1},
                                   {"stop", {"x"}},
                                   {"presence_penalty", 0.1},
                                   {"frequency_penalty", 0.2},
                                   {"logprobs", true},
                                   {"top_logprobs", 3}});
  EXPECT_EQ(request.error, "");
  EXPECT_EQ(request.facts.form, Form::chat_completion);
  EXPECT_EQ(request.facts.id, "a");
  EXPECT_EQ(request.facts.model, "m");
  EXPECT_EQ(request.settings, json({{"max_tokens", 5},
                                    {"temperature", 0.5},
                                    {"top_p", 0.9},
                                    {"n", 2},
                                    {"seed", 1},
                                    {"stop", {"x"}},
                                    {"presence_penalty", 0.1},
                                    {"frequency_penalty", 0.2},
                                    {"logprobs", 3}}));
  EXPECT_EQ(completion({{"logprobs", 2}}).settings, json({{"logprobs", 2}}));
  EXPECT_EQ(chat({{"logprobs", true}}).settings, json({{"logprobs", 0}}));
}

TEST(OpenAIBatchLine, AcceptsEveryFormOfAPrompt) {
  EXPECT_EQ(completion({{"prompt", "One"}}).text, "One");
  EXPECT_EQ(completion({{"prompt", {"One"}}}).text, "One");
  EXPECT_EQ(completion({{"prompt", {1, 2}}}).ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(completion({{"prompt", {{1, 2}}}}).ids, (std::vector<TokenId>{1, 2}));
  EXPECT_CONTAINS(completion({{"prompt", {"One", "Two"}}}).error, "`prompt`: expected one prompt, found 2");
  // The address is optional.
  EXPECT_EQ(read({{"custom_id", "a"}, {"body", {{"prompt", "x"}}}}).facts.form, Form::text_completion);
  EXPECT_EQ(read({{"custom_id", "a"}, {"body", {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}}})
                .facts.form,
            Form::chat_completion);
}

TEST(OpenAIBatchLine, AdaptsMessagesToTemplates) {
  const json parts = {{{"type", "text"}, {"text", "One"}}, {{"type", "text"}, {"text", "two"}}};
  const ApiRequest request = chat({{"messages",
                                    {{{"role", "developer"}, {"content", "Be brief."}},
                                     {{"role", "user"}, {"content", parts}},
                                     {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {1}}}}},
                                   {"chat_template_kwargs", {{"enable_thinking", false}}}});
  EXPECT_EQ(request.error, "");
  const json expected = {{{"role", "system"}, {"content", "Be brief."}},
                         {{"role", "user"}, {"content", "One\ntwo"}},
                         {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {1}}}};
  EXPECT_EQ(json(request.conversation->at("messages")), expected);
  EXPECT_EQ(request.conversation->at("enable_thinking"), false);
  const json image = {{{"type", "image_url"}, {"image_url", {{"url", "x"}}}}};
  EXPECT_CONTAINS(chat({{"messages", {{{"role", "user"}, {"content", image}}}}}).error,
                  "`messages`: message 1 has a part of type \"image_url\"");
}

TEST(OpenAIBatchLine, RejectsTemplateArgumentsThatReplaceMessages) {
  for (const char* name : {"messages", "tools", "add_generation_prompt"}) {
    const ApiRequest request = chat({{"chat_template_kwargs", {{name, json::array()}}}});
    EXPECT_CONTAINS(request.error,
                    "`chat_template_kwargs`: expected variables that only the chat template uses, found `" +
                        std::string(name) + "`");
  }
}

TEST(OpenAIBatchLine, IgnoresFieldsThatDoNotChangeTheAnswer) {
  const ApiRequest request = chat({{"user", "me"},
                                   {"metadata", {{"a", 1}}},
                                   {"store", true},
                                   {"service_tier", "flex"},
                                   {"temperature", nullptr},
                                   {"tools", nullptr},
                                   {"anything", nullptr},
                                   {"stream", false},
                                   {"response_format", {{"type", "text"}}},
                                   {"tool_choice", "none"}});
  EXPECT_EQ(request.error, "");
  EXPECT_EQ(request.settings, json::object());
}

TEST(RequestFields, ReadAndWriteBiasesStopsAndBadWords) {
  const json fields = {
      {"logit_bias", {{"5", -100}, {"7", 2.5}}}, {"min_tokens", 3},      {"stop_token_ids", {8, 9}},
      {"include_stop_str_in_output", true},      {"bad_words", {"foo"}}, {"bad_words_ids", {{1, 2}, {3}}}};
  Request request;
  set_fields(fields, request);
  ASSERT_EQ(request.sampling.logit_bias.size(), 2U);
  EXPECT_EQ(request.sampling.logit_bias[1].id, 7);
  EXPECT_EQ(request.sampling.logit_bias[1].bias, 2.5F);
  EXPECT_EQ(request.min_tokens, 3);
  EXPECT_EQ(request.stop_token_ids, (std::vector<TokenId>{8, 9}));
  EXPECT_TRUE(request.include_stop_str_in_output);
  EXPECT_EQ(request.bad_words, std::vector<std::string>{"foo"});
  EXPECT_EQ(request.bad_words_ids, (std::vector<std::vector<TokenId>>{{1, 2}, {3}}));
  const json written = fields_of(request);
  for (const auto& [name, value] : fields.items()) EXPECT_EQ(written.at(name), value) << name;
  for (const auto& [name, value] : fields.items()) EXPECT_FALSE(fields_of(Request()).contains(name)) << name;
}

TEST(OpenAIBatchLine, ReadsConstraintsInAllTheirForms) {
  const json schema = {{"type", "object"}};
  const std::vector<std::pair<json, json>> cases = {
      {{{"response_format", {{"type", "json_object"}}}}, {{"json_object", true}}},
      {{{"response_format",
         {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"strict", true}, {"schema", schema}}}}}},
       {{"json_schema", R"({"type":"object"})"}}},
      {{{"guided_json", schema}}, {{"json_schema", R"({"type":"object"})"}}},
      {{{"guided_json", R"({"type": "object"})"}}, {{"json_schema", R"({"type": "object"})"}}},
      {{{"guided_regex", "a+"}}, {{"regex", "a+"}}},
      {{{"guided_choice", {"a", "b"}}}, {{"choice", {"a", "b"}}}},
      {{{"guided_grammar", "root ::= \"x\""}}, {{"grammar", "root ::= \"x\""}}},
      {{{"grammar", ""}}, json::object()},
      {{{"structured_outputs", {{"regex", "a+"}, {"json", nullptr}}}}, {{"regex", "a+"}}},
      {{{"structured_outputs", {{"json_object", true}}}, {"json_space", "compact"}},
       {{"json_object", true}, {"json_space", "compact"}}},
  };
  for (const auto& [members, settings] : cases) {
    const ApiRequest request = chat(members);
    EXPECT_EQ(request.error, "");
    EXPECT_EQ(request.settings, settings) << members;
    Request engine_request;
    set_fields(request.settings, engine_request);
    EXPECT_EQ(engine_request.constraint.has_value(), !settings.empty());
    for (const auto& [name, value] : settings.items()) EXPECT_EQ(fields_of(engine_request).at(name), value);
  }
}

TEST(RequestFields, TurnDraftTokensOff) {
  Request request;
  EXPECT_FALSE(fields_of(request).contains("speculate"));
  set_fields({{"speculate", false}}, request);
  EXPECT_FALSE(request.speculate);
  EXPECT_EQ(fields_of(request).at("speculate"), false);
  EXPECT_EQ(chat({{"speculate", false}}).settings, json({{"speculate", false}}));
}

TEST(RequestFields, KeepTheOrderOfASchemasProperties) {
  const ApiRequest request =
      read_batch_line(R"({"prompt": "x", "json_schema": {"properties": {"z": {}, "a": {}}}})", "");
  EXPECT_EQ(request.settings.at("json_schema"), R"({"properties":{"z":{},"a":{}}})");
}

TEST(RequestFields, RefuseSeveralConstraintsAndWrongTypes) {
  Request request;
  const auto error_of = [&](const json& fields) {
    return test::error_of<RequestError>([&] { set_fields(fields, request); });
  };
  EXPECT_CONTAINS(error_of({{"regex", "a"}, {"choice", {"a"}}}),
                  "expected one of choice, grammar, json_object");
  EXPECT_CONTAINS(error_of({{"regex", 5}}), "`regex`: expected a text, found 5");
  EXPECT_CONTAINS(error_of({{"choice", "a"}}), "`choice`: expected a list of texts, found \"a\"");
  EXPECT_CONTAINS(error_of({{"json_object", "x"}}), "`json_object`: expected true or false, found \"x\"");
  EXPECT_CONTAINS(error_of({{"json_object", true}, {"json_space", "wide"}}),
                  "`json_space`: expected compact or flexible, found \"wide\"");
}

TEST(RequestFields, RejectBiasesWithoutTokenIds) {
  Request request;
  for (const json& biases : {json{{"five", 1}}, json{{"5x", 1}}, json{{"5", "x"}}, json::array({1}), json(3)})
    EXPECT_THROW(set_fields({{"logit_bias", biases}}, request), RequestError) << biases;
}

TEST(OpenAIBatchLine, RejectsUnsupportedFields) {
  const std::vector<std::pair<json, std::string>> members = {
      {{{"stream", true}}, "`stream` is not supported, found true; leave it out"},
      {{{"tools", {{{"type", "function"}}}}},
       "`tools`: expected {\"type\": \"function\", \"function\": {...}}"},
      {{{"response_format", {{"type", "xml"}}}},
       "`response_format`: expected the type text, json_object or json_schema, found {\"type\":\"xml\"}"},
      {{{"response_format", {{"type", "json_schema"}}}},
       "\"schema\": {...}}}, found {\"type\":\"json_schema\"}"},
      {{{"structured_outputs", {{"lark", "x"}}}},
       "`structured_outputs`: expected json, json_object, regex, choice or grammar, found `lark`"},
      {{{"max_token", 5}}, "unknown field `max_token`"},
      {{{"regex", "a+"}}, "unknown field `regex`"},
      {{{"decoder_ids", {1}}}, "unknown field `decoder_ids`"},
      {{{"top_logprobs", 5}}, "`top_logprobs` needs \"logprobs\": true"},
      {{{"logprobs", 5}}, "`logprobs`: expected true or false, found 5"},
      {{{"model", 5}}, "`model`: expected a name, found number"},
  };
  for (const auto& [member, message] : members) EXPECT_CONTAINS(chat(member).error, message);
  EXPECT_CONTAINS(completion({{"echo", 1}}).error, "`echo`: expected true or false, found number");
  EXPECT_CONTAINS(chat({{"echo", true}}).error, "`echo` is not supported");
  EXPECT_CONTAINS(completion({{"messages", {1}}}).error, "unknown field `messages`");

  const json body = {{"prompt", "x"}};
  const std::vector<std::pair<json, std::string>> lines = {
      {{{"body", body}}, "`custom_id`: expected a text next to `body`, found none"},
      {{{"custom_id", 5}, {"body", body}}, "`custom_id`: expected a text next to `body`, found number"},
      {{{"custom_id", "a"}, {"body", body}, {"method", "GET"}}, "`method`: expected \"POST\", found \"GET\""},
      {{{"custom_id", "a"}, {"body", body}, {"url", "/v1/embeddings"}}, "found \"/v1/embeddings\""},
      {{{"custom_id", "a"}, {"body", body}, {"max_tokens", 1}}, "unknown field `max_tokens` next to `body`"},
      {{{"custom_id", "a"}, {"body", 5}}, "expected an object with `prompt`, found number"},
      {{{"custom_id", "a"}}, "expected an object with `prompt`, found null"},
      {{{"custom_id", "a"}, {"body", json::object()}}, "expected `prompt`, found none"},
  };
  for (const auto& [line, message] : lines) {
    const ApiRequest request = read(line);
    EXPECT_CONTAINS(request.error, message);
    EXPECT_NE(request.facts.form, Form::line) << "the error is answered in OpenAI's form";
  }
}

}  // namespace
}  // namespace tp
