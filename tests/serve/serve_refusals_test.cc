// Requests that the server rejects, and clients that it admits.

#include "tests/expect_contains.h"
#include "tests/serve/one_server.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tp::test {
namespace {

using nlohmann::json;

// Anyone may send such requests. Bodies of requests with a key need the room in memory.
TEST_F(ServeApiAlone, ReservesNoRoomForBodiesOfRequestsWithoutAny) {
  for (const std::string path : {"/health", "/", "/metrics", "/v1/models"}) {
    HttpClient client(server().port());
    client.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 33554432\r\n\r\n");
    const HttpReply reply = client.read();
    EXPECT_EQ(reply.status, 413) << path;
    EXPECT_CONTAINS(reply.body, "expected a body of at most 4096 bytes");
    EXPECT_CONTAINS(reply.body, "found 33554432");
  }
}

TEST_F(ServeApiAlone, NamesTheListsThatAreTooLong) {
  const auto refused = [](const char* name, const json& value) {
    const HttpReply reply = server().post("/v1/completions", greedy(1, {{name, value}}));
    return reply.status == 400 && reply.json().at("error").at("param") == name;
  };
  EXPECT_TRUE(refused("bad_words", std::vector<std::string>(1025, "x")));
  EXPECT_TRUE(refused("stop", std::vector<std::string>(257, "x")));
  EXPECT_TRUE(refused("stop_token_ids", std::vector<int>(1025, 5)));
  EXPECT_TRUE(refused("cache_salt", std::string(1025, 's')));
}

TEST_F(ServeApiAlone, RefusesWrongRequestsWithTheStatusThatClientsExpect) {
  const json messages = {{{"role", "user"}, {"content", "Hi"}}};
  const auto error = [](const HttpReply& reply) { return reply.json().at("error"); };
  EXPECT_EQ(server().get("/v1/nothing").status, 404);
  EXPECT_EQ(server().get("/v1/completions").status, 405);
  EXPECT_EQ(server().get("/v1/completions").headers.at("allow"), "POST");
  EXPECT_EQ(server().post("/", json::object()).headers["allow"], "GET");
  EXPECT_EQ(server().get("/../../etc/passwd").status, 404);
  EXPECT_EQ(server().get("/%2e%2e/etc/passwd").status, 404);
  EXPECT_EQ(server().get("/v1/models/nothing").status, 404);
  EXPECT_EQ(server().post("/v1/embeddings", {{"input", 1}}).status, 400);
  EXPECT_EQ(server().post("/v1/rerank", {{"query", "a"}, {"documents", {"b"}}}).status, 400);
  EXPECT_EQ(post_text(server().port(), "/v1/completions", "{", {}).status, 400);
  EXPECT_EQ(post_text(server().port(), "/v1/completions", "{}", {{"Content-Type", "text/plain"}}).status,
            415);
  HttpClient rebound(server().port());
  rebound.send("GET /v1/models HTTP/1.1\r\nHost: evil.example.com\r\n\r\n");
  EXPECT_EQ(rebound.read().status, 403);
  EXPECT_EQ(server().post("/v1/completions", greedy(1), {{"Origin", "https://evil.example.com"}}).status,
            403);

  const HttpReply other = server().post("/v1/completions", greedy(1, {{"model", "gpt-9"}}));
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(error(other).at("param"), "model");
  EXPECT_EQ(error(other).at("code"), "model_not_found");
  EXPECT_EQ(server().post("/v1/messages/count_tokens", {{"model", "gpt-9"}, {"messages", messages}}).status,
            404);

  const HttpReply hot = server().post("/v1/completions", greedy(1, {{"temperature", -1}}));
  EXPECT_EQ(hot.status, 400);
  EXPECT_EQ(error(hot).at("param"), "temperature");
  EXPECT_EQ(error(hot).at("type"), "invalid_request_error");

  const HttpReply longest = server().post("/v1/completions", {{"prompt", std::vector<int>(100'000, 5)}});
  EXPECT_EQ(longest.status, 400);
  EXPECT_EQ(error(longest).at("code"), "context_length_exceeded");
  EXPECT_EQ(error(longest).at("n_prompt_tokens"), 100'000);
  const json models = server().get("/v1/models").json();
  EXPECT_EQ(error(longest).at("n_ctx"), models.at("data").at(0).at("max_model_len"));
  EXPECT_FALSE(error(hot).contains("n_ctx"));

  const HttpReply format =
      server().post("/v1/chat/completions", {{"messages", messages}, {"response_format", {{"type", "xml"}}}});
  EXPECT_EQ(format.status, 400);
  EXPECT_EQ(error(format).at("param"), "response_format");
  EXPECT_EQ(server().post("/v1/completions", {{"prompt", {1, 99'999}}}).status, 400);
  EXPECT_EQ(server().post("/v1/completions", {{"prompt", json::array()}}).status, 400);
  const HttpReply many = server().post("/v1/completions", {{"prompt", {"a", "b", "c"}}, {"n", 2000}});
  EXPECT_EQ(many.status, 400);
  EXPECT_EQ(error(many).at("param"), "n");
  EXPECT_EQ(post_text(server().port(), "/v1/completions", "{\"prompt\": \"\xff\"}", {}).status, 400);
  EXPECT_EQ(post_text(server().port(), "/v1/completions", std::string(100'000, '['), {}).status, 400);
}

TEST_F(ServeApiAlone, RejectsExpensiveRequests) {
  const auto param = [](const HttpReply& reply) { return reply.json().at("error").at("param"); };
  EXPECT_EQ(param(server().post("/v1/completions", greedy(1, {{"logprobs", 21}}))), "logprobs");
  const json messages = {{{"role", "user"}, {"content", "Hi"}}};
  EXPECT_EQ(param(server().post("/v1/chat/completions",
                                {{"messages", messages}, {"logprobs", true}, {"top_logprobs", 21}})),
            "top_logprobs");
  for (const json& n : {json(-1), json(0), json(1.5), json("x"), json(4294967296)})
    EXPECT_EQ(param(server().post("/v1/completions", greedy(1, {{"n", n}, {"best_of", 1}}))), "n") << n;
  EXPECT_EQ(param(server().post("/v1/completions", {{"prompt", std::vector<std::string>(1100, "a")}})),
            "prompt");
  std::string members = "{\"prompt\": \"a\"";
  for (int i = 0; i < 30'000; ++i) members += ",\"" + std::to_string(i) + "\":0";
  EXPECT_EQ(post_text(server().port(), "/v1/completions", members + "}").status, 400);
  const HttpReply longest = server().post("/v1/completions", {{"prompt", std::string(3 << 20, 'a')}});
  EXPECT_EQ(longest.json().at("error").at("code"), "context_length_exceeded");
  EXPECT_LT(
      server().post("/v1/completions", {{"prompt", "a"}, {"model", std::string(1 << 20, 'm')}}).body.size(),
      2000U);
}

// Arguments are JSON inside a JSON string, and they may be deeply nested, too.
TEST_F(ServeApiAlone, OutlivesArgumentsOfManyLevels) {
  const std::string levels(100'000, '[');
  const std::string arguments = "{\"a\": " + levels + std::string(levels.size(), ']') + "}";
  const json function = {{"name", "f"}, {"arguments", arguments}};
  const json call = {{"id", "c"}, {"type", "function"}, {"function", function}};
  const json messages = {user_says("Hi"),
                         {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}}};
  const HttpReply reply = server().post("/apply-template", {{"messages", messages}});
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_CONTAINS(reply.json().at("prompt").get<std::string>(), R"({"name":"f","arguments":{}})")
      << reply.body;
}

TEST_F(ServeApiAlone, RefusesConstraintsByTheNameThatTheClientGaveThem) {
  const json missing = {{"type", "json_schema"}, {"json_schema", {{"schema", {{"$ref", "#/$defs/a"}}}}}};
  const json none = {{"type", "json_schema"}, {"json_schema", {{"schema", {{"enum", json::array()}}}}}};
  const json unique = {{"items", {{"uniqueItems", true}}}};
  const std::pair<const char*, json> cases[] = {
      {"response_format", missing}, {"response_format", none}, {"guided_json", unique},
      {"guided_regex", "("},        {"grammar", "root ::= ("}, {"structured_outputs", {{"regex", "("}}}};
  for (const auto& [member, value] : cases) {
    for (const json& prompt : {json("a"), json({"a", "b"})}) {
      const HttpReply reply =
          server().post("/v1/completions", {{"prompt", prompt}, {member, value}, {"max_tokens", 1}});
      EXPECT_EQ(reply.status, 400) << member;
      EXPECT_EQ(reply.json().at("error").at("param"), member) << reply.body;
      EXPECT_EQ(
          reply.json().at("error").at("message").get<std::string>().find("`" + std::string(member) + "`: "),
          0U)
          << reply.body;
    }
  }
  const json format = {{"type", "json_schema"}, {"schema", {{"enum", json::array()}}}};
  const HttpReply text = server().post("/v1/responses", {{"input", "a"}, {"text", {{"format", format}}}});
  EXPECT_EQ(text.json().at("error").at("param"), "text") << text.body;
}

// The engine's errors use the server's names of members. Clients expect the names of their API.
TEST_F(ServeApiAlone, NamesTheMembersOfTheClientsApiInErrorsOfTheEngine) {
  const auto error = [](const HttpReply& reply) {
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.json().at("error");
  };
  const json few = error(server().post("/v1/responses", {{"input", "a"}, {"max_output_tokens", -5}}));
  EXPECT_EQ(few.at("param"), "max_output_tokens");
  EXPECT_EQ(few.at("message").get<std::string>().find("`max_tokens`"), std::string::npos) << few;
  const json banned = error(server().post(
      "/v1/completions", {{"prompt", "a"}, {"max_tokens", 3}, {"min_tokens", 3}, {"guided_choice", {"b"}}}));
  EXPECT_EQ(banned.at("param"), "guided_choice") << banned;
}

TEST_F(ServeApiAlone, AllowsWebPagesOfThisMachine) {
  HttpClient client(server().port());
  client.send(request_text(
      "OPTIONS", "/v1/chat/completions", "",
      {{"Origin", "http://localhost:3000"}, {"Access-Control-Request-Headers", "content-type, x-mine"}}));
  const HttpReply reply = client.read();
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.headers.at("access-control-allow-origin"), "http://localhost:3000");
  EXPECT_EQ(reply.headers.at("access-control-allow-headers"), "content-type, x-mine");
  EXPECT_EQ(server()
                .get("/v1/models", {{"Origin", "http://localhost:3000"}})
                .headers.at("access-control-allow-origin"),
            "http://localhost:3000");
}

TEST(Serve, RefusesChatsWithoutATemplate) {
  const std::filesystem::path demo = std::filesystem::path(TP_SOURCE_FOLDER) / "model/demo";
  TemporaryDirectory folder;
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"})
    std::filesystem::copy(demo / name, folder.path() / name);
  ServedProgram server(kNoMpirun, {"--model", folder.path().string(), "--api-key", "secret"});
  const Headers key = {{"Authorization", "Bearer secret"}};
  const json messages = {{{"role", "user"}, {"content", "Hi"}}};
  const HttpReply chat = server.post("/v1/chat/completions", {{"messages", messages}}, key);
  EXPECT_EQ(chat.status, 400);
  EXPECT_CONTAINS(chat.body, "--chat-template");
  EXPECT_EQ(server.post("/v1/completions", greedy(1), key).status, 200);
  EXPECT_EQ(server.post("/v1/completions", greedy(1)).status, 401);
  EXPECT_EQ(server.get("/health").status, 200) << "without a key";
  EXPECT_EQ(server.get("/metrics").status, 401);
  EXPECT_EQ(server.get("/v1/models", key).json().at("data")[0].at("capabilities").at("chat"), false);
  server.end();
}

TEST_F(ServeApiAlone, RefusesMethodsAndCodingsByTheirOwnStatus) {
  HttpClient client(server().port());
  client.send(
      "PUT /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
      "2\r\n\r\n{}");
  const HttpReply put = client.read();
  EXPECT_EQ(put.status, 405);
  EXPECT_EQ(put.headers.at("allow"), "POST");
  const HttpReply zipped = post_text(server().port(), "/v1/completions", "\x1f\x8b",
                                     {{"Content-Type", "application/json"}, {"Content-Encoding", "gzip"}});
  EXPECT_EQ(zipped.status, 415);
  EXPECT_EQ(zipped.headers.at("accept-encoding"), "identity");
  const HttpReply plain =
      post_text(server().port(), "/v1/completions", "{}", {{"Content-Type", "text/plain"}});
  EXPECT_EQ(plain.status, 415);
  EXPECT_FALSE(plain.headers.contains("accept-encoding"));
  EXPECT_CONTAINS(zipped.body, "Content-Encoding");
  EXPECT_EQ(post_text(server().port(), "/v1/completions", greedy(1).dump(),
                      {{"Content-Type", "application/json"}, {"Content-Encoding", "identity"}})
                .status,
            200);
}

constexpr const char* kLoudTemplate =
    "{% for message in messages %}{% if message.content == 'secret' %}{{ raise_exception('no ' + "
    "message.content) }}"
    "{% endif %}{{ message.content }}{% endfor %}";

TEST(Serve, LogsWhyARequestWasRefusedWithoutItsTexts) {
  TemporaryDirectory folder;
  const std::string file = folder.write("loud.jinja", kLoudTemplate);
  ServedProgram server(kNoMpirun, {"--chat-template", file});
  server.post("/v1/completions", greedy(1, {{"temperature", "secret"}}));
  const HttpReply refused = server.post("/v1/chat/completions", {{"messages", {user_says("secret")}}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json().at("error").at("param"), "messages");
  EXPECT_CONTAINS(refused.body, "no secret");
  EXPECT_EQ(refused.body.find(folder.path().string()), std::string::npos) << refused.body;
  EXPECT_EQ(refused.body.find("loud.jinja"), std::string::npos) << refused.body;
  post_text(server.port(), "/v1/completions", "{\"prompt\": secret", {});
  server.post("/v1/completions", greedy(1), {{"Origin", "https://secret.example.com"}});
  HttpClient large(server.port());
  large.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 1000000000000\r\n\r\n");
  EXPECT_EQ(large.read().status, 413);
  server.post("/v1/responses",
              {{"input", "Hi"}, {"tools", {{{"type", "web_search"}}}}, {"max_output_tokens", 1}});
  std::string log;
  EXPECT_TRUE(server.process().wait_for_error([&](const std::string& err) {
    log = err;
    return err.find("of type web_search") != std::string::npos;
  })) << log;
  EXPECT_CONTAINS(log, "param=temperature expected a number");
  EXPECT_CONTAINS(log, "param=messages chat_template_error");
  EXPECT_CONTAINS(log, "invalid_json");
  EXPECT_CONTAINS(log, "origin_not_allowed");
  EXPECT_CONTAINS(log, "413 total=0.000s");
  EXPECT_EQ(log.find("secret"), std::string::npos) << log;
  server.end();
}

}  // namespace
}  // namespace tp::test
