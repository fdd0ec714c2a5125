// Clients of each API read more than answers: they use ids, lists of models, and error messages.
#include "tests/expect_contains.h"
#include "tests/serve/tool_requests.h"

#include <chrono>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

std::string message_of(const HttpReply& reply) { return reply.json().at("error").at("message"); }

TEST_F(ServeApiAlone, EveryResponseHasTheIdOfItsRequest) {
  const auto id_of = [](const HttpReply& reply) {
    const auto ours = reply.headers.find("x-request-id");
    if (ours == reply.headers.end()) return std::string();
    EXPECT_EQ(reply.headers.at("request-id"), ours->second);
    return ours->second;
  };
  const json chat = {{"messages", {user_says("Hi")}}, {"max_tokens", 1}};
  json streamed = chat;
  streamed["stream"] = true;
  HttpClient broken(server().port());
  broken.send("NONSENSE\r\n\r\n");
  const HttpReply replies[] = {server().post("/v1/messages", chat),
                               server().post("/v1/messages", streamed),
                               server().post("/v1/messages", json::object()),
                               server().post("/v1/chat/completions", streamed),
                               server().get("/v1/models"),
                               server().get("/nothing"),
                               broken.read()};
  std::set<std::string> ids;
  for (const HttpReply& reply : replies) {
    EXPECT_TRUE(id_of(reply).starts_with("req_")) << reply.status << reply.body;
    ids.insert(id_of(reply));
  }
  EXPECT_EQ(ids.size(), std::size(replies)) << "an id of its own";
  EXPECT_EQ(id_of(server().post("/v1/messages", streamed, {{"X-Request-Id", "r-17"}})), "r-17");
}

TEST(Serve, LogsTheIdsOfRequests) {
  for (const bool as_json : {false, true}) {
    ServedProgram server(kNoMpirun, as_json ? Arguments{"--log-json"} : Arguments{});
    const std::string id = server.post("/v1/completions", greedy(1)).headers.at("x-request-id");
    server.post("/v1/completions", greedy(-1), {{"X-Request-Id", "mine-5"}});
    const auto shown = [&](const std::string& name) {
      return as_json ? "\"request_id\":\"" + name + "\"" : "request=" + name;
    };
    std::string log;
    EXPECT_TRUE(server.process().wait_for_error([&](const std::string& err) {
      log = err;
      return err.find(shown(id)) != err.npos && err.find(shown("mine-5")) != err.npos;
    })) << log;
    server.end();
  }
}

TEST_F(ServeApiAlone, ModelsHaveTheMembersOfBothApis) {
  const json list = server().get("/v1/models").json();
  EXPECT_EQ(list.at("object"), "list");
  EXPECT_EQ(list.at("has_more"), false);
  EXPECT_EQ(list.at("first_id"), "demo");
  EXPECT_EQ(list.at("last_id"), "demo");
  for (const json& model : {list.at("data").at(0), server().get("/v1/models/demo").json()}) {
    EXPECT_EQ(model.at("object"), "model");
    EXPECT_EQ(model.at("type"), "model");
    EXPECT_EQ(model.at("display_name"), "demo");
    EXPECT_EQ(model.at("max_input_tokens"), model.at("max_model_len"));
    const std::string created = model.at("created_at");
    EXPECT_EQ(created.size(), std::string("2026-11-28T20:00:00Z").size()) << created;
    EXPECT_EQ(created.back(), 'Z') << created;
  }
}

// Claude Code and opencode search for these words, and then shorten the conversation.
TEST(Serve, ReportsAPromptsExcessLengthToAnthropicsClients) {
  const TemplateFile chat_template;
  ServedProgram server(
      kNoMpirun, {"--chat-template", chat_template.path(), "--max-length", "100", "--cache-tokens", "64"});
  const auto refusal = [&](const char* path, std::size_t words, int tokens) {
    std::string text;
    for (std::size_t i = 0; i < words; ++i) text += "x ";
    const HttpReply reply = server.post(path, {{"messages", {user_says(text)}}, {"max_tokens", tokens}});
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_EQ(reply.json().at("error").at("type"), "invalid_request_error");
    EXPECT_EQ(reply.json().at("error").at("details").at("error_code"), "context_length_exceeded");
    return message_of(reply);
  };
  const auto expect_numbers = [](const std::string& message, std::size_t min, std::size_t maximum) {
    const std::string begin = "prompt is too long: ";
    ASSERT_EQ(message.substr(0, begin.size()), begin) << message;
    EXPECT_GE(std::stoul(message.substr(begin.size())), min) << message;
    EXPECT_CONTAINS(message, " tokens > " + std::to_string(maximum) + " maximum");
  };
  expect_numbers(refusal("/v1/messages", 300, 5), 300, 100);
  expect_numbers(refusal("/v1/messages", 20, 60), 65, 64);
  const std::string bytes = refusal("/v1/messages", 100'000, 5);
  expect_numbers(bytes, 10'000, 100);
  EXPECT_CONTAINS(bytes, "200") << "the bytes";
  expect_numbers(refusal("/v1/messages/count_tokens", 100'000, 5), 10'000, 100);
  server.end();
}

TEST_F(ServeApiAlone, BothEndpointsOfMessagesRefuseThreads) {
  json body = {{"messages", {user_says("Hi")}}, {"max_tokens", 5}, {"thread", {{"type", "create"}}}};
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
    body["thread"] = {{"type", "create"}};
    const HttpReply create = server().post(path, body);
    EXPECT_EQ(create.status, 400);
    EXPECT_EQ(create.json().at("error").at("details"),
              json::parse(R"({"error_code": "thread_unsupported_request", "unsupported": ["thread"]})"));
    body["thread"] = {{"type", "continue"}, {"previous_message_id", "msg_1"}};
    const HttpReply next = server().post(path, body);
    EXPECT_EQ(next.status, 404);
    EXPECT_EQ(next.json().at("error").at("type"), "not_found_error");
    EXPECT_EQ(next.json().at("error").at("details").at("error_code"), "thread_not_found");
  }
}

TEST_F(ServeApiAlone, AnUnknownPathIsAnsweredWithTheNearestEndpoint) {
  for (const auto& [path, nearest] : {std::pair("/v1/chat/completion", "/v1/chat/completions"),
                                      {"/chat/completion", "/v1/chat/completions"},
                                      {"/v1/chat/completions/", "/v1/chat/completions"},
                                      {"/v1/chat/completions/chat/completions", "/v1/chat/completions"},
                                      {"/openai/v1/models", "/v1/models"},
                                      {"/v1/message", "/v1/messages"},
                                      {"/metric", "/metrics"}}) {
    const HttpReply reply = server().post(path, json::object());
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_CONTAINS(message_of(reply), std::string("did you mean ") + nearest + "?");
  }
  EXPECT_CONTAINS(message_of(server().post("/api/generate", json::object())), "Ollama's API");
}

TEST_F(ServeApiAlone, ErrorsAreSentences) {
  const std::string base = message_of(server().get("/v1"));
  EXPECT_CONTAINS(base, "the base URL");
  EXPECT_CONTAINS(base, "/v1/chat/completions");
  EXPECT_CONTAINS(message_of(server().post("/v1/v1/messages", json::object())), "found two");
  EXPECT_CONTAINS(message_of(server().get("/v1/nothing")), "no endpoint /v1/nothing");
  const std::string json_error = message_of(post_text(server().port(), "/v1/completions", "{\"a\": secret"));
  EXPECT_EQ(json_error,
            "the body is not JSON: line 1, column 7: expected a value such as \"text\", 1, true or null, "
            "found other characters");
  HttpClient client(server().port());
  client.send("NONSENSE\r\n\r\n");
  EXPECT_EQ(message_of(client.read()),
            "this is not an HTTP/1.1 request: its first line is not one of HTTP/1.1");
}

// OpenSSL's own error message for a server without TLS is hard to understand.
TEST_F(ServeApiAlone, ExplainsThatAClientExpectsTls) {
  const Finished chat =
      run(kNoMpirun, {"chat", "--server", "https://127.0.0.1:" + std::to_string(server().port())});
  EXPECT_EQ(chat.status, 1) << chat.err;
  EXPECT_CONTAINS(chat.err, "does not speak TLS");
  EXPECT_EQ(chat.err.find("SSL routines"), std::string::npos) << chat.err;
}

TEST_F(ServeApiAlone, MisspelledRolesAreRefusedInEveryApi) {
  const json wrong = {{"role", "usr"}, {"content", "Hi"}};
  for (const auto& [path, member] : {std::pair("/v1/chat/completions", "messages"),
                                     {"/v1/messages", "messages"},
                                     {"/v1/responses", "input"}}) {
    const HttpReply reply = server().post(path, {{member, {wrong}}, {"max_tokens", 1}});
    EXPECT_EQ(reply.status, 400) << path << reply.body;
    EXPECT_CONTAINS(message_of(reply), "\"usr\"") << reply.body;
    EXPECT_EQ(message_of(reply).find("`" + std::string(member) + "`: "), 0U) << reply.body;
  }
  for (const char* role : {"system", "developer", "user"})
    EXPECT_EQ(server()
                  .post("/v1/chat/completions",
                        {{"messages", {{{"role", role}, {"content", "Hi"}}}}, {"max_tokens", 1}})
                  .status,
              200);
}

// The roles that the template names are accepted, too.
TEST(Serve, AcceptsTheRolesOfTheTemplate) {
  const TemporaryDirectory folder;
  const std::string file = folder.write(
      "t.jinja",
      "{% for m in messages %}{% if m.role == 'observation' %}{{ m.content }}{% endif %}{% endfor %}");
  ServedProgram server(kNoMpirun, {"--chat-template", file});
  const auto status = [&](const char* role) {
    return server.post("/apply-template", {{"messages", {{{"role", role}, {"content", "Hi"}}}}}).status;
  };
  EXPECT_EQ(status("observation"), 200);
  EXPECT_EQ(status("observations"), 400);
  server.end();
}

// As in vLLM, `stop_reason` reports only token ids that the request named.
TEST(Serve, DoesNotReportTheEndOfTextAsAStopReason) {
  const ScriptedModel model;
  ServedProgram server(kNoMpirun, {"--model", model.folder.path().string()});
  const auto ask = [&](const json& more) {
    json body = {{"messages", {user_says("Hi")}}, {"temperature", 0}};
    body.update(more);
    return server.post("/v1/chat/completions", body).json().at("choices").at(0);
  };
  const json usual = ask(json::object());
  EXPECT_EQ(usual.at("finish_reason"), "stop");
  EXPECT_EQ(usual.value("stop_reason", json()), json()) << usual;
  const json tokens = ask({{"return_token_ids", true}}).at("token_ids");
  EXPECT_EQ(ask({{"stop_token_ids", {tokens.at(1)}}}).at("stop_reason"), tokens.at(1));
  EXPECT_EQ(ask({{"stop", "there"}}).at("stop_reason"), "there");
  server.end();
}

TEST(Serve, AFullQueueGivesTheReasonAndAdvice) {
  ServedProgram server(kNoMpirun, {"--max-queue", "1", "--max-sequences", "1"});
  const HttpReply many = server.post("/v1/completions", {{"prompt", {"a", "b", "c"}}, {"max_tokens", 1}});
  EXPECT_EQ(many.status, 400);
  EXPECT_CONTAINS(message_of(many), "--max-queue") << many.body;
  HttpClient running(server.port());
  HttpClient waiting(server.port());
  const std::string slow = greedy(2000, {{"ignore_eos", true}, {"stream", true}}).dump();
  running.send(request_text("POST", "/v1/completions", slow));
  running.read_until("data: ");
  waiting.send(request_text("POST", "/v1/completions", slow));
  for (int i = 0; i < 10000 && server.metric("num_requests_waiting") == 0.0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const HttpReply refused = server.post("/v1/completions", greedy(1));
  ASSERT_EQ(refused.status, 429);
  EXPECT_CONTAINS(message_of(refused), "--max-queue") << refused.body;
  EXPECT_TRUE(refused.headers.contains("retry-after"));
  running.close();
  waiting.close();
  server.end();
}

}  // namespace
}  // namespace tp::test
