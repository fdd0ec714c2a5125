// tp-infer chat --server, with a misbehaving server in the test, and with tp-infer serve.
#include "tests/expect_contains.h"
#include "tests/launch/hub/http_server.h"
#include "tests/launch/text_model.h"
#include "tests/serve/served_program.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

std::string response(const std::string& status, const std::string& type, const std::string& body,
                     const std::string& more = "") {
  return "HTTP/1.1 " + status + "\r\nContent-Type: " + type + "\r\nConnection: close\r\n" + more + "\r\n" +
         body;
}

std::string error_response(const std::string& status, const std::string& message,
                           const std::string& more = "") {
  return response(status, "application/json", json{{"error", {{"message", message}}}}.dump(), more);
}

std::string event(const json& data) { return "data: " + data.dump() + "\n\n"; }

json chunk(const json& delta, const json& reason = nullptr) {
  return {{"choices", {{{"index", 0}, {"delta", delta}, {"finish_reason", reason}}}}};
}

const std::string kStream = response("200 OK", "text/event-stream; charset=utf-8", "");

// Responses with "Hello!", because servers send different additional members.
const std::string kHello =
    kStream + event(chunk({{"role", "assistant"}, {"content", ""}})) + ": ping\n\n" +
    event(chunk({{"content", "Hel"}})) + event(chunk({{"content", "lo!"}})) +
    event(chunk(json::object(), "stop")) +
    event({{"choices", json::array()},
           {"usage",
            {{"prompt_tokens", 9},
             {"completion_tokens", 4},
             {"prompt_tokens_details", {{"cached_tokens", 3}}}}},
           {"timings", {{"prompt_ms", 120.0}, {"predicted_ms", 400.0}, {"predicted_per_second", 10.0}}}}) +
    "data: [DONE]\n\n";

// Answers with the model `m`, and each question with the next response. The last response repeats.
class FakeServer {
 public:
  explicit FakeServer(std::vector<std::string> answers) : answers_(std::move(answers)) {}

  std::string address() const { return server_.address(); }
  std::vector<WebRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  json question(std::size_t index) const { return json::parse(requests().at(index).body); }

 private:
  void handle(const WebRequest& request) {
    if (request.method == "GET") {
      const json models = {{"data", {{{"id", "m"}, {"max_model_len", 512}}, {{"id", "other"}}}}};
      HttpServer::send(request, request.target == "/v1/models"
                                    ? response("200 OK", "application/json", models.dump())
                                    : error_response("404 Not Found", "nothing there"));
      return;
    }
    std::size_t index = 0;
    {
      const std::lock_guard lock(mutex_);
      index = std::min(requests_.size(), answers_.size() - 1);
      requests_.push_back(request);
    }
    HttpServer::send(request, answers_[index]);
  }

  std::vector<std::string> answers_;
  mutable std::mutex mutex_;
  std::vector<WebRequest> requests_;
  HttpServer server_{[this](const WebRequest& request) { handle(request); }};
};

StartOptions with_input(const std::string& input) {
  return {.input = input, .variables = {"OPENAI_API_KEY=", "no_proxy=127.0.0.1"}};
}

Finished chat(const std::string& address, const std::string& input, const Arguments& more = {}) {
  Arguments arguments = {"chat", "--server", address};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(kNoMpirun, arguments, with_input(input));
}

TEST(ChatServer, SendsTheConversationAndPrintsTheAnswer) {
  const FakeServer server({kHello});
  const Finished finished = chat(server.address(), "Hi\nAgain\n", {"--system", "Be kind."});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out, "Hello!\nHello!\n");
  EXPECT_EQ(finished.err, "");
  ASSERT_EQ(server.requests().size(), 2U);
  const json expected = {{"messages",
                          {{{"role", "system"}, {"content", "Be kind."}},
                           {{"role", "user"}, {"content", "Hi"}},
                           {{"role", "assistant"}, {"content", "Hello!"}},
                           {{"role", "user"}, {"content", "Again"}}}},
                         {"model", "m"},
                         {"stream", true},
                         {"stream_options", {{"include_usage", true}}},
                         {"max_tokens", 256}};
  EXPECT_EQ(server.question(1), expected);
  const WebRequest request = server.requests()[0];
  EXPECT_EQ(request.target, "/v1/chat/completions");
  EXPECT_EQ(request.field("content-type"), "application/json");
  EXPECT_EQ(request.field("authorization"), "");
}

// Thinking is not for scripts; calls are printed as calls, and the next line is what they return.
TEST(ChatServer, AtATerminalAnswersAreRenderedAndBrokenBetweenWordsUnlessPlain) {
  const std::string answer =
      "Some **bold** words, and enough of them that a line of eighty columns ends in between them.";
  const std::string styled =
      "Some \x1b[0;1mbold\x1b[0m words, and enough of them that a line of eighty columns ends in\r\nbetween "
      "them.";
  FakeServer server({kStream + event(chunk({{"content", answer}}, "stop")) + "data: [DONE]\n\n"});
  for (const bool is_plain : {false, true}) {
    Arguments arguments = {"chat", "--server", server.address()};
    if (is_plain) arguments.emplace_back("--plain");
    StartOptions options = with_input("");
    options.keep_input_open = true;
    options.on_terminal = true;
    options.variables.insert(options.variables.end(), {"TERM=xterm", "NO_COLOR="});
    Process person(command_line(kNoMpirun, arguments), options);
    ASSERT_TRUE(person.wait_for_output([](const std::string& out) { return out.ends_with("> "); }));
    person.write_input("Hi\n");
    ASSERT_TRUE(person.wait_for_output([](const std::string& out) { return out.ends_with("them.\r\n> "); }));
    person.write_input("/exit\n");
    const Finished finished = person.finish();
    EXPECT_EQ(finished.status, 0) << finished.out;
    EXPECT_CONTAINS(finished.out, "m, context of 512 tokens; /help lists commands");
    EXPECT_CONTAINS(finished.out, is_plain ? answer : styled);
  }
}

TEST(ChatServer, PrintsCallsOfToolsAndSendsWhatTheyReturn) {
  const auto call = [](json function, json more = json::object()) {
    json entry = {{"index", 0}, {"function", std::move(function)}};
    entry.update(more);
    return event(chunk({{"tool_calls", {entry}}}));
  };
  const std::string calls =
      kStream + event(chunk({{"role", "assistant"}, {"content", nullptr}})) +
      event(chunk({{"reasoning_content", "I look it up."}})) + event(chunk({{"content", "Let me see."}})) +
      call({{"name", "get_weather"}, {"arguments", ""}}, {{"id", "abc"}, {"type", "function"}}) +
      call({{"arguments", "{\"city\": "}}) + call({{"arguments", "\"Oslo\"}"}}) +
      event(chunk(json::object(), "tool_calls")) + "data: [DONE]\n\n";
  const FakeServer server({calls, kHello});
  const Finished finished = chat(server.address(), "The weather?\nsunny\n", {"--max-thinking-tokens", "9"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out, "Let me see.\nget_weather({\"city\": \"Oslo\"})\nHello!\n");
  EXPECT_EQ(finished.err, "(the next message is what get_weather returns)\n");
  EXPECT_EQ(server.question(0).at("max_thinking_tokens"), 9);
  const json messages = server.question(1).at("messages");
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[1].at("tool_calls")[0].at("id"), "abc");
  EXPECT_EQ(messages[1].at("tool_calls")[0].at("function"),
            (json{{"name", "get_weather"}, {"arguments", "{\"city\": \"Oslo\"}"}}));
  EXPECT_EQ(messages[2],
            (json{{"role", "tool"}, {"content", "sunny"}, {"tool_call_id", "abc"}, {"name", "get_weather"}}));
}

TEST(ChatServer, SendsTheOptionsThatWereGiven) {
  const FakeServer server({kHello});
  const Finished finished =
      chat(server.address() + "/v1/", "Hi\n",
           {"--model", "other", "--temperature", "0.7", "--top-k", "5", "--seed", "7", "--stop", "a",
            "--stop", "b", "--max-tokens", "9", "--min-tokens", "2", "--ignore-eos", "--bad-word", "c"});
  EXPECT_EQ(finished.status, 0) << finished.err;
  json question = server.question(0);
  question.erase("messages");
  const json expected = {
      {"model", "other"},   {"stream", true},    {"stream_options", {{"include_usage", true}}},
      {"temperature", 0.7}, {"top_k", 5},        {"seed", 7},
      {"stop", {"a", "b"}}, {"max_tokens", 9},   {"min_tokens", 2},
      {"ignore_eos", true}, {"bad_words", {"c"}}};
  EXPECT_EQ(question, expected);
}

TEST(ChatServer, SendsTheKeyOfTheFileOrOfTheEnvironment) {
  const TemporaryDirectory directory;
  const FakeServer server({kHello});
  chat(server.address(), "Hi\n", {"--api-key-file", directory.write("key", "of-the-file\n")});
  StartOptions options = with_input("Hi\n");
  options.variables.front() += "of-the-environment";
  run(kNoMpirun, {"chat", "--server", server.address()}, options);
  ASSERT_EQ(server.requests().size(), 2U);
  EXPECT_EQ(server.requests()[0].field("authorization"), "Bearer of-the-file");
  EXPECT_EQ(server.requests()[1].field("authorization"), "Bearer of-the-environment");
}

TEST(ChatServer, ReportsTheServersSpeed) {
  const FakeServer server({kHello});
  const Finished finished = chat(server.address(), "Hi\n", {"--verbose"});
  EXPECT_CONTAINS(finished.err, "(prompt of 9 tokens, 3 of them cached; 4 tokens in ");
  EXPECT_CONTAINS(finished.err, "; on the server 0.12 s for the prompt, then 10.0 tokens/s)");
  const std::string untold = kStream + event(chunk({{"content", "x"}}, "length")) + "data: [DONE]\n\n";
  const FakeServer silent({untold});
  const Finished other = chat(silent.address(), "Hi\n", {"--verbose", "--max-tokens", "5"});
  EXPECT_CONTAINS(other.err, "(stopped after 5 tokens: --max-tokens allows more)");
  EXPECT_CONTAINS(other.err, " s; the server has not counted the tokens)");
}

struct Failure {
  const char* name;
  std::string answer;
  std::string message;
};

class ChatServerError : public testing::TestWithParam<Failure> {};

TEST_P(ChatServerError, IsReportedAndTheConversationGoesOn) {
  const FakeServer server({GetParam().answer, kHello});
  const Finished finished = chat(server.address(), "Hi\nAgain\n");
  EXPECT_EQ(finished.status, 1);
  EXPECT_TRUE(finished.out.ends_with("Hello!\n")) << finished.out;
  EXPECT_CONTAINS(finished.err, server.address() + "/v1");
  EXPECT_CONTAINS(finished.err, GetParam().message);
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
  ASSERT_EQ(server.requests().size(), 2U);
  EXPECT_EQ(server.question(1).at("messages"), json({{{"role", "user"}, {"content", "Again"}}}));
}

const std::string kPart = kStream + event(chunk({{"content", "Once"}}));

INSTANTIATE_TEST_SUITE_P(
    , ChatServerError,
    testing::Values(
        Failure{"BadRequest", error_response("400 Bad Request", "too long"),
                "expected that the request is understood, found status 400 (too long); change"},
        Failure{
            "NoKey", error_response("401 Unauthorized", "no key"),
            "expected that no API key is needed, found status 401 (no key); give the server's key in a file "
            "of --api-key-file, or in OPENAI_API_KEY"},
        Failure{"NoSuchModel", error_response("404 Not Found", "no model x"),
                "expected OpenAI's API and the model there, found status 404 (no model x); check --model"},
        Failure{"TooManyRequests", error_response("429 Too Many Requests", "busy", "Retry-After: 7\r\n"),
                "found status 429 (busy); try again in 7 s"},
        Failure{"NotReady", error_response("503 Service Unavailable", "loading"),
                "expected a server that is ready, found status 503 (loading); try again later"},
        Failure{"ServersFault", response("500 Internal Server Error", "text/html", "<p>Oh</p>"),
                "found status 500; ask again"},
        Failure{"Redirect", response("302 Found", "text/html", "", "Location: https://b/v1\r\n"),
                "found status 302; give the address that it leads to: https://b/v1"},
        Failure{"NoStream", response("200 OK", "text/html", "<p>Welcome</p>"),
                "expected a stream of events, found text/html; check"},
        Failure{"ErrorEvent", kPart + event({{"error", {{"message", "a rank is gone"}}}}),
                "broke off: expected a complete answer, found an error of the server (a rank is gone); ask "
                "again"},
        Failure{"NoEnd", kPart, "broke off: expected [DONE] at its end, found the end of the connection"},
        Failure{"BrokenConnection",
                response("200 OK", "text/event-stream", event(chunk({{"content", "Once"}})),
                         "Content-Length: 10000\r\n"),
                "broke off: expected a complete answer, found: "},
        Failure{"NoJson", kPart + "data: {oops\n\n", "expected events of JSON, found {oops"}),
    [](const auto& failure) { return failure.param.name; });

TEST(ChatServer, AFailedAgainKeepsTheConversation) {
  const FakeServer server({kHello, kHello, error_response("503 Service Unavailable", "loading")});
  const TemporaryDirectory folder;
  const std::string saved = (folder.path() / "saved.json").string();
  chat(server.address(), "Hi\nMore\n/again\n/save " + saved + "\n");
  EXPECT_EQ(read_json(saved).at("messages").size(), 4U);
}

TEST(ChatServer, ReportsThatNoServerListens) {
  std::string address;
  {
    const HttpServer ended([](const WebRequest&) {});
    address = ended.address();
  }
  const std::string expected = "cannot reach " + address + "/v1: expected a server, found: ";
  expect_one_line(chat(address, "Hi\n"), 1, expected);
  // The first message may arrive too early.
  const Finished finished = chat(address, "Hi\n/help\n", {"--model", "m"});
  EXPECT_EQ(finished.status, 1);
  EXPECT_CONTAINS(finished.err, expected);
  EXPECT_CONTAINS(finished.err, "/save FILE");
  expect_one_line(chat("ftp://127.0.0.1", ""), 1, "cannot read ftp://127.0.0.1/v1/models");
}

TEST(ChatServer, RefusesOptionsOfAModelThatRunsHere) {
  const auto expect_refused = [](const Arguments& more, const std::string& message) {
    expect_one_line(chat("http://127.0.0.1:1", "", more), 2, message);
  };
  expect_refused({"--weights", "int8"}, "expected no --weights with --server");
  expect_refused({"--threads", "2"}, "expected no --threads with --server");
  expect_refused({"--template", "file"}, "expected no --template with --server");
  expect_refused({"--top-p", "2"}, "--top-p is 2");
  expect_one_line(run(kNoMpirun, {"chat", "--api-key-file", "key"}), 2, "expected --server URL");
}

class StoppedChatServer : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(, StoppedChatServer, testing::Bool(),
                         [](const auto& by) { return by.param ? "ByASignal" : "ByAnEmptyLine"; });

// The connection also closes while no bytes arrive.
TEST_P(StoppedChatServer, ClosesTheConnectionAndGoesOn) {
  std::atomic<bool> was_closed = false;
  HttpServer* self = nullptr;
  HttpServer server([&](const WebRequest& request) {
    HttpServer::send(request, kPart);
    self->wait_for_end(request);
    was_closed = true;
  });
  self = &server;
  StartOptions options = with_input("");
  options.keep_input_open = true;
  Process process({TP_INFER_PROGRAM, "chat", "--server", server.address(), "--model", "m"}, options);
  process.write_input("Hi\n");
  ASSERT_TRUE(process.wait_for_output([](const std::string& out) { return out == "Once"; }));
  if (GetParam())
    ASSERT_EQ(::kill(process.pid(), SIGINT), 0);
  else
    process.write_input("\n");
  ASSERT_TRUE(process.wait_for_message("(stopped)"));
  for (int i = 0; i < 500 && !was_closed; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(was_closed);
  process.write_input("/exit\n");
  const Finished finished = process.finish();
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out, "Once\n");
}

TEST(ChatServer, GivesTheSameAnswersAsALocalChat) {
  const TemporaryDirectory directory;
  const std::string chat_template = directory.write("template.jinja", kTemplate);
  const std::string input = "Tell me a story\nGo on\n";
  const Arguments options = {"--greedy", "--max-tokens", "12", "--verbose"};
  Arguments local = {"chat", "--template", chat_template};
  local.insert(local.end(), options.begin(), options.end());
  const Finished expected = run(kNoMpirun, local, {.input = input});
  ASSERT_EQ(expected.status, 0) << expected.err;

  ServedProgram server(2, {"--chat-template", chat_template, "--api-key", "k"});
  const std::string address = "127.0.0.1:" + std::to_string(server.port());
  Arguments remote = options;
  remote.insert(remote.end(), {"--api-key-file", directory.write("key", "k")});
  const Finished finished = chat(address, input, remote);
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out, expected.out);
  EXPECT_CONTAINS(finished.err, "(stopped after 12 tokens: --max-tokens allows more)");
  EXPECT_CONTAINS(finished.err, "; 12 tokens in ");
  EXPECT_CONTAINS(finished.err, "; on the server ");
  expect_one_line(chat(address, input), 1, "found status 401");
  expect_one_line(chat(address, input, {"--api-key-file", directory.write("keys", "anna:k")}), 1,
                  "the key has a colon; if it is NAME:KEY from the server's file, give only KEY");

  std::string long_message;
  for (int i = 0; i < 1200; ++i) long_message += "word ";
  const Finished full = chat(address, long_message + "\nHi\n", remote);
  EXPECT_EQ(full.status, 1);
  EXPECT_CONTAINS(full.err, "found status 400 (");
  EXPECT_CONTAINS(full.err, "/reset begins a new conversation");
  server.end();
}

}  // namespace
}  // namespace tp::test
