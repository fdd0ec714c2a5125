// Responses that clients of the server's API receive.

#include "tests/expect_contains.h"
#include "tests/serve/one_server.h"

#include <set>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

std::string completion_text(const HttpReply& reply) { return reply.json().at("choices").at(0).at("text"); }

class ServeApi : public testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(, ServeApi, testing::Values(kNoMpirun, 2, 3), [](const auto& ranks) {
  return ranks.param == kNoMpirun ? std::string("WithoutMpirun") : std::to_string(ranks.param) + "Ranks";
});

TEST_P(ServeApi, CompletesAsGenerateDoes) {
  ServedProgram server(GetParam());
  const Finished expected =
      run(kNoMpirun, {"generate", "--prompt", kPrompt, "--greedy", "--max-tokens", "30", "--no-echo"});
  const HttpReply reply = server.post("/v1/completions", greedy(30));
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(completion_text(reply) + "\n", expected.out);
  const json body = reply.json();
  EXPECT_EQ(body.at("object"), "text_completion");
  EXPECT_EQ(body.at("model"), "demo");
  EXPECT_EQ(body.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(body.at("usage").at("completion_tokens"), 30);
  EXPECT_TRUE(body.at("system_fingerprint").is_string());
  EXPECT_GT(body.at("timings").at("predicted_ms"), 0);

  const HttpReply stream = server.post("/v1/completions", greedy(30, {{"stream", true}}));
  EXPECT_EQ(stream.headers.at("content-type").substr(0, 17), "text/event-stream");
  EXPECT_EQ(streamed_text(stream) + "\n", expected.out);
  EXPECT_EQ(stream.events().back(), "[DONE]");
  EXPECT_EQ(stream.chunks().size(), 31U) << "a chunk per token, and the last one";
  server.end();
}

TEST_P(ServeApi, ChatsInOpenAisFormat) {
  const TemplateFile chat_template;
  ServedProgram server(GetParam(), {"--chat-template", chat_template.path(), "--model-name", "story",
                                    "--model-name", "other"});
  const json messages = {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "Tell me a story"}}}}}};
  json body = {{"model", "other"}, {"messages", messages}, {"max_completion_tokens", 12}, {"temperature", 0},
               {"tools", nullptr}, {"stop", nullptr},      {"something_new", 1}};
  const HttpReply whole = server.post("/v1/chat/completions", body);
  ASSERT_EQ(whole.status, 200) << whole.body;
  const json choice = whole.json().at("choices").at(0);
  EXPECT_EQ(whole.json().at("object"), "chat.completion");
  EXPECT_EQ(whole.json().at("model"), "other");
  EXPECT_EQ(choice.at("message").at("role"), "assistant");
  EXPECT_EQ(choice.at("logprobs"), nullptr);

  body.update({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  const HttpReply stream = server.post("/chat/completions", body);
  const std::vector<json> chunks = stream.chunks();
  ASSERT_GE(chunks.size(), 4U);
  EXPECT_EQ(chunks.front().at("choices").at(0).at("delta"), (json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(streamed_text(stream), choice.at("message").at("content"));
  for (std::size_t i = 0; i + 2 < chunks.size(); ++i)
    EXPECT_EQ(chunks[i].at("choices").at(0).at("finish_reason"), nullptr);
  const json& last = chunks[chunks.size() - 2].at("choices").at(0);
  EXPECT_EQ(last.at("delta"), json::object());
  EXPECT_EQ(last.at("finish_reason"), "length");
  EXPECT_EQ(chunks.back().at("choices"), json::array());
  EXPECT_EQ(chunks.back().at("usage").at("completion_tokens"), 12);
  std::set<json> ids;
  for (const json& chunk : chunks) ids.insert(chunk.at("id"));
  EXPECT_EQ(ids.size(), 1U);
  server.end();
}

TEST_F(ServeApiAlone, AnswersSeveralPromptsAndSamples) {
  const HttpReply reply = server().post(
      "/v1/completions",
      {{"prompt", {"Once", "One day"}}, {"n", 2}, {"max_tokens", 5}, {"temperature", 1}, {"seed", 7}});
  const json choices = reply.json().at("choices");
  ASSERT_EQ(choices.size(), 4U) << reply.body;
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(choices[i].at("index"), i);
  EXPECT_EQ(reply.json().at("usage").at("completion_tokens"), 20);
  const HttpReply alone =
      server().post("/v1/completions",
                    {{"prompt", "One day"}, {"n", 2}, {"max_tokens", 5}, {"temperature", 1}, {"seed", 7}});
  EXPECT_EQ(alone.json().at("choices")[1].at("text"), choices[3].at("text"));
}

TEST_F(ServeApiAlone, StreamsSeveralSamples) {
  const json body = {{"prompt", "Once"}, {"n", 2}, {"max_tokens", 8}, {"temperature", 1}, {"seed", 7}};
  json streamed = body;
  streamed["stream"] = true;
  const json whole = server().post("/v1/completions", body).json().at("choices");
  const HttpReply stream = server().post("/v1/completions", streamed);
  for (int index : {0, 1})
    EXPECT_EQ(streamed_text(stream, index), whole[static_cast<std::size_t>(index)].at("text"));
}

TEST_F(ServeApiAlone, ReportsLogProbabilitiesInBothFormats) {
  const json completion =
      server().post("/v1/completions", greedy(4, {{"logprobs", 2}})).json().at("choices")[0].at("logprobs");
  ASSERT_EQ(completion.at("tokens").size(), 4U);
  EXPECT_EQ(completion.at("top_logprobs")[0].size(), 2U);
  EXPECT_EQ(completion.at("text_offset")[0], 0);
  const json messages = {{{"role", "user"}, {"content", "Hi"}}};
  const json chat = server()
                        .post("/v1/chat/completions", {{"messages", messages},
                                                       {"max_tokens", 4},
                                                       {"temperature", 0},
                                                       {"logprobs", true},
                                                       {"top_logprobs", 3}})
                        .json()
                        .at("choices")[0]
                        .at("logprobs");
  ASSERT_EQ(chat.at("content").size(), 4U);
  EXPECT_EQ(chat.at("content")[0].at("top_logprobs").size(), 3U);
  EXPECT_EQ(chat.at("content")[0].at("token"), chat.at("content")[0].at("top_logprobs")[0].at("token"));
}

TEST_F(ServeApiAlone, EchoesThePromptWithItsLogProbabilities) {
  const HttpReply reply = server().post("/v1/completions", greedy(3, {{"echo", true}, {"logprobs", 1}}));
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json choice = reply.json().at("choices")[0];
  EXPECT_EQ(choice.at("text").get<std::string>().substr(0, std::string(kPrompt).size()), kPrompt);
  const json lists = choice.at("logprobs");
  const std::size_t prompt = reply.json().at("usage").at("prompt_tokens");
  ASSERT_EQ(lists.at("token_logprobs").size(), prompt + 3);
  EXPECT_EQ(lists.at("top_logprobs")[0], nullptr);
  for (std::size_t i = 1; i < prompt + 3; ++i) {
    const json top = lists.at("top_logprobs")[i];
    ASSERT_EQ(top.size(), 1U) << i;
    const bool is_best = top.begin().key() == lists.at("tokens")[i];
    EXPECT_EQ(top.begin().value() == lists.at("token_logprobs")[i], is_best) << i;
    EXPECT_LE(lists.at("token_logprobs")[i], top.begin().value()) << i;
    EXPECT_TRUE(is_best || i < prompt) << "greedy tokens are the best";
  }
  EXPECT_EQ(lists.at("token_logprobs")[0], nullptr);
  // The model's own text gets the same scores whether it is generated or given. The scores differ slightly,
  // because processors with bf16 products round activations in steps of many tokens.
  const json ids =
      server().post("/tokenize", {{"content", choice.at("text")}, {"add_special", true}}).json().at("tokens");
  const json again =
      server()
          .post("/v1/completions",
                {{"prompt", ids}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 1}, {"temperature", 0}})
          .json()
          .at("choices")[0]
          .at("logprobs")
          .at("token_logprobs");
  for (std::size_t i = 1; i < prompt + 3; ++i)
    EXPECT_NEAR(again[i].get<double>(), lists.at("token_logprobs")[i].get<double>(), 0.02) << i;
}

TEST_F(ServeApiAlone, ReturnsTheBestOfSeveralSamples) {
  const json reply =
      server()
          .post("/v1/completions",
                {{"prompt", "Once"}, {"n", 6}, {"max_tokens", 6}, {"seed", 3}, {"logprobs", 0}})
          .json();
  const json& all = reply.at("choices");
  std::string best;
  double best_score = -1e9;
  for (const json& choice : all) {
    double score = 0.0;
    for (const json& logprob : choice.at("logprobs").at("token_logprobs")) score += logprob.get<double>();
    score /= static_cast<double>(choice.at("logprobs").at("token_logprobs").size());
    if (score > best_score) best = choice.at("text");
    best_score = std::max(best_score, score);
  }
  const json chosen =
      server()
          .post("/v1/completions", {{"prompt", "Once"}, {"best_of", 6}, {"max_tokens", 6}, {"seed", 3}})
          .json();
  ASSERT_EQ(chosen.at("choices").size(), 1U);
  EXPECT_EQ(chosen.at("choices")[0].at("text"), best);
  EXPECT_EQ(chosen.at("choices")[0].at("logprobs"), nullptr);
  EXPECT_EQ(chosen.at("usage").at("completion_tokens"), reply.at("usage").at("completion_tokens"));
}

TEST_F(ServeApiAlone, FindsTheBeginningOfALongPromptInItsCache) {
  std::string text = kPrompt;
  for (int i = 0; i < 40; ++i) text += " and a time";
  const json body = {{"prompt", text}, {"max_tokens", 1}};
  server().post("/v1/completions", body);
  const json usage = server().post("/v1/completions", body).json().at("usage");
  EXPECT_GT(usage.at("prompt_tokens_details").at("cached_tokens"), 60);
  json salted = body;
  salted["cache_salt"] = "mine";
  EXPECT_EQ(server()
                .post("/v1/completions", salted)
                .json()
                .at("usage")
                .at("prompt_tokens_details")
                .at("cached_tokens"),
            0);
}

TEST_F(ServeApiAlone, StopsAtATextAndReportsIt) {
  const json whole = server().post("/v1/completions", greedy(20)).json().at("choices")[0];
  const std::string text = whole.at("text");
  const std::string stop = text.substr(text.size() / 2, 4);
  const json choice = server().post("/v1/completions", greedy(20, {{"stop", stop}})).json().at("choices")[0];
  EXPECT_EQ(choice.at("text"), text.substr(0, text.find(stop)));
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  EXPECT_EQ(choice.at("stop_reason"), stop);
}

TEST_F(ServeApiAlone, SpeaksOpenAisResponses) {
  const json body = {{"input", "Tell me a story"}, {"max_output_tokens", 6}, {"temperature", 0}};
  const json whole = server().post("/v1/responses", body).json();
  EXPECT_EQ(whole.at("object"), "response");
  EXPECT_EQ(whole.at("status"), "incomplete");
  EXPECT_EQ(whole.at("incomplete_details").at("reason"), "max_output_tokens");
  EXPECT_EQ(whole.at("usage").at("output_tokens"), 6);
  const std::string text = whole.at("output")[0].at("content")[0].at("text");
  json streamed = body;
  streamed["stream"] = true;
  std::string deltas;
  int number = 0;
  for (const json& event : server().post("/v1/responses", streamed).chunks()) {
    EXPECT_EQ(event.at("sequence_number"), number++);
    if (event.at("type") == "response.output_text.delta") deltas += event.at("delta").get<std::string>();
    if (event.at("type") == "response.incomplete") {
      EXPECT_EQ(event.at("response").at("output")[0].at("content")[0].at("text"), text);
    }
  }
  EXPECT_EQ(deltas, text);
  EXPECT_GT(number, 6);
  EXPECT_EQ(server().post("/v1/responses", {{"input", "a"}, {"previous_response_id", "r"}}).status, 400);
}

TEST_F(ServeApiAlone, SpeaksAnthropicsMessages) {
  const json messages = {{{"role", "user"}, {"content", "Tell me a story"}}};
  const json body = {{"messages", messages}, {"max_tokens", 6}, {"temperature", 0}};
  const json whole = server().post("/v1/messages", body).json();
  EXPECT_EQ(whole.at("type"), "message");
  EXPECT_EQ(whole.at("stop_reason"), "max_tokens");
  EXPECT_EQ(whole.at("usage").at("output_tokens"), 6);
  json streamed = body;
  streamed["stream"] = true;
  std::string deltas;
  std::vector<std::string> types;
  for (const json& event : server().post("/v1/messages", streamed).chunks()) {
    types.push_back(event.at("type"));
    if (types.back() == "content_block_delta") deltas += event.at("delta").at("text").get<std::string>();
  }
  EXPECT_EQ(deltas, whole.at("content")[0].at("text"));
  EXPECT_EQ(types.front(), "message_start");
  EXPECT_EQ(types.back(), "message_stop");
  const json count = server().post("/v1/messages/count_tokens", {{"messages", messages}}).json();
  const std::size_t prompt = whole.at("usage").at("input_tokens").get<std::size_t>() +
                             whole.at("usage").at("cache_read_input_tokens").get<std::size_t>();
  EXPECT_EQ(count.at("input_tokens"), prompt);
  const json error = server().post("/v1/messages", {{"max_tokens", 6}}).json();
  EXPECT_EQ(error.at("type"), "error");
  EXPECT_EQ(error.at("error").at("type"), "invalid_request_error");
}

TEST_F(ServeApiAlone, TokenizesAndBack) {
  const json ids = server().post("/tokenize", {{"content", "Once upon"}}).json().at("tokens");
  EXPECT_EQ(server().post("/detokenize", {{"tokens", ids}}).json().at("content"), "Once upon");
  const json vllm = server().post("/tokenize", {{"prompt", "Once upon"}}).json();
  EXPECT_EQ(vllm.at("count"), ids.size() + 1) << "with the token that a prompt begins with";
  EXPECT_EQ(vllm.at("max_model_len"), server().get("/v1/models").json().at("data")[0].at("max_model_len"));
  const json messages = {{{"role", "user"}, {"content", "Hi"}}};
  const json begun = {{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", "Once "}}};
  EXPECT_EQ(server()
                .post("/apply-template", {{"messages", begun}, {"continue_final_message", true}})
                .json()
                .at("prompt"),
            "user: Hi\nassistant: Once");
  EXPECT_EQ(
      server()
          .post("/apply-template",
                {{"messages", begun}, {"continue_final_message", true}, {"add_generation_prompt", true}})
          .status,
      400);
  EXPECT_EQ(server().post("/apply-template", {{"messages", messages}}).json().at("prompt"),
            "user: Hi\nassistant:");
}

// lm-evaluation-harness sends such requests: a control token's spelling becomes the token, and the token
// becomes its spelling.
TEST_F(ServeApiAlone, ListsItsControlTokens) {
  const json info = server().get("/tokenizer_info").json();
  EXPECT_EQ(info.at("bos_token"), "<|bos|>");
  EXPECT_EQ(info.at("eos_token"), "<|eos|>");
  EXPECT_EQ(info.at("pad_token"), nullptr);
  EXPECT_EQ(info.at("model_max_length"), server().get("/v1/models").json().at("data")[0].at("max_model_len"));
  EXPECT_EQ(server().get("/v1/tokenizer_info").json(), info);
  const json request = {{"prompt", "<|eos|>"}, {"add_special_tokens", false}};
  EXPECT_EQ(server().post("/tokenize", request).json().at("tokens"), json::array({1}));
  const json ids = {0, 300, 301, 1};
  const std::string text = server().post("/detokenize", {{"tokens", ids}}).json().at("prompt");
  EXPECT_EQ(text.substr(0, 7), "<|bos|>");
  EXPECT_EQ(server().post("/tokenize", {{"prompt", text}, {"add_special_tokens", false}}).json().at("tokens"),
            ids);
}

TEST_F(ServeApiAlone, DescribesItselfAndItsModel) {
  EXPECT_EQ(server().get("/health").json().at("status"), "ok");
  EXPECT_EQ(server().get("/v1/models").json().at("data")[0].at("id"), "demo");
  EXPECT_EQ(server().get("/v1/models/demo").json().at("object"), "model");
  EXPECT_EQ(server().get("/models/d%65mo").status, 200);
  EXPECT_TRUE(server().get("/version").json().at("version").is_string());
  EXPECT_EQ(server().get("/").headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_CONTAINS(server().get("/").headers.at("content-security-policy"), "default-src 'self'");
  server().post("/v1/completions", greedy(3));
  EXPECT_GE(server().metric("generation_tokens_total"), 3);
  EXPECT_GE(server().metric("request_success_total"), 1);
  const json status = server().status();
  EXPECT_EQ(status.at("ranks").size(), 1U);
  EXPECT_GT(status.at("cache").at("capacity_tokens"), 0);
}

TEST_F(ServeApiAlone, EchoesInAStreamThatGeneratesNothing) {
  const HttpReply stream =
      server().post("/v1/completions", greedy(0, {{"echo", true}, {"logprobs", 1}, {"stream", true}}));
  EXPECT_EQ(streamed_text(stream), kPrompt) << stream.body;
  EXPECT_EQ(stream.chunks().back().at("choices")[0].at("finish_reason"), "length");
}

TEST_F(ServeApiAlone, RepeatsTheIdOfARequest) {
  EXPECT_EQ(
      server().post("/v1/completions", greedy(1), {{"X-Request-Id", "r-17"}}).headers.at("x-request-id"),
      "r-17");
}

}  // namespace
}  // namespace tp::test
