// The server's side of the gateway: streams with marks, and answers that continue a record after any number
// of tokens.
#include "tests/expect_contains.h"
#include "tests/serve/tool_requests.h"

#include <regex>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

constexpr const char* kSecret = "secret";

// Removes the times, because they differ between runs.
std::string without_times(const std::string& text) {
  static const std::regex kTimes("\"timings\":\\{[^}]*\\}");
  static const std::regex kEnd("\"completed_at\":[0-9]+");
  return std::regex_replace(std::regex_replace(text, kTimes, "\"timings\":{}"), kEnd, "\"completed_at\":0");
}

// Sorts the events by choice, because the choices of several continuations arrive in any order.
std::string by_choice(const std::string& text) {
  std::map<std::size_t, std::string> events;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", begin), text.size() - 2) + 2;
    const std::string event = text.substr(begin, end - begin);
    begin = end;
    const json data = event.starts_with("data: {") ? json::parse(event.substr(6)) : json();
    const bool has_choice = data.is_object() && data.contains("choices") && !data["choices"].empty();
    events[has_choice ? data["choices"][0]["index"].get<std::size_t>() : SIZE_MAX] += event;
  }
  std::string sorted;
  for (const auto& [index, of_choice] : events) sorted += of_choice;
  return sorted;
}

struct Unit {
  std::string piece;
  std::string mark;
};

// Returns the pieces that the gateway receives, each with its mark.
std::vector<Unit> units_of(const std::string& body) {
  std::vector<Unit> units;
  std::string piece;
  for (std::size_t begin = 0; begin < body.size();) {
    const std::size_t end = body.find("\n\n", begin);
    EXPECT_NE(end, std::string::npos) << "the last block has no end";
    const std::string block = body.substr(begin, end - begin);
    begin = end + 2;
    if (block.starts_with(": tp ")) {
      units.push_back({std::exchange(piece, {}), block.substr(5)});
    } else {
      piece += block + "\n\n";
    }
  }
  EXPECT_EQ(piece, "") << "a piece has no mark";
  return units;
}

struct Case {
  std::string path;
  json body;
};

class ServeRecord : public testing::Test {
 protected:
  // Announces the server to port 1, where nobody listens.
  static Arguments announcing(Arguments arguments) {
    arguments.insert(arguments.end(),
                     {"--host", "127.0.0.1", "--same-bits", "--announce", "http://127.0.0.1:1/secret"});
    return arguments;
  }

  static HttpReply ask(const ServedProgram& server, const Case& asked, const std::vector<std::string>& marks,
                       bool begun) {
    const std::string record =
        fmt::format(R"({{"id":"0123","created":1700000000,"seed":77,"begun":{},"tokens":[{}]}})", begun,
                    fmt::join(marks, ","));
    return post_text(server.port(), asked.path, record + asked.body.dump(),
                     {{"tp-gateway", kSecret}, {"tp-record-bytes", std::to_string(record.size())}});
  }

  // Compares an undisturbed answer with answers that continue it after each of its tokens. Returns its number
  // of tokens.
  static std::size_t expect_continuations(const ServedProgram& server, const Case& asked) {
    ask(server, asked, {}, false);  // fills the prefix cache
    const HttpReply whole = ask(server, asked, {}, false);
    EXPECT_EQ(whole.status, 200) << whole.body;
    const std::vector<Unit> units = units_of(whole.body);
    EXPECT_FALSE(units.empty()) << whole.body;
    std::vector<std::string> marks;
    for (std::size_t done = 0; done < units.size(); ++done) {
      if (!units[done].mark.starts_with('[')) continue;
      marks.push_back(units[done].mark);
      std::string expected;
      for (std::size_t i = done + 1; i < units.size(); ++i) expected += units[i].piece;
      const HttpReply rest = ask(server, asked, marks, true);
      EXPECT_EQ(rest.status, 200) << rest.body;
      std::string found;
      const std::vector<Unit> more = units_of(rest.body);
      for (const Unit& unit : more) found += unit.piece;
      EXPECT_EQ(by_choice(without_times(found)), by_choice(without_times(expected)))
          << asked.path << asked.body << " after " << marks.size();
      std::vector<std::string> later;
      for (const Unit& unit : more) later.push_back(unit.mark);
      EXPECT_EQ(later.back(), units.back().mark);
    }
    return marks.size();
  }
};

json with(json body, const json& more) {
  body.update(more);
  return body;
}

TEST_F(ServeRecord, ContinuesTextsAfterEachToken) {
  const TemplateFile chat_template;
  ServedProgram server(2, announcing({"--chat-template", chat_template.path()}));
  const json drawn = {{"prompt", kPrompt},         {"max_tokens", 9},         {"temperature", 1.3},
                      {"repetition_penalty", 1.2}, {"presence_penalty", 0.4}, {"stream", true}};
  const json greedy_text = {{"prompt", kPrompt}, {"max_tokens", 9}, {"temperature", 0}};
  const json usage = {{"include_usage", true}};
  const json talk = {
      {"messages", {{{"role", "user"}, {"content", "A story"}}}}, {"max_tokens", 7}, {"temperature", 0.8}};
  const json shape = {
      {"type", "json_schema"},
      {"json_schema",
       {{"name", "s"},
        {"schema",
         {{"type", "object"},
          {"properties", {{"name", {{"enum", {"Emma", "Tom"}}}}, {"age", {{"type", "integer"}}}}},
          {"required", {"name", "age"}}}}}}};
  const std::vector<Case> cases = {
      {"/v1/completions", with(drawn, {{"stream_options", usage}, {"logprobs", 2}})},
      {"/v1/completions", with(drawn, {{"n", 3}, {"max_tokens", 4}})},
      {"/v1/completions", with(drawn, {{"prompt", {kPrompt, "The dog"}}, {"n", 2}, {"max_tokens", 3}})},
      {"/v1/completions",
       with(greedy_text, {{"stream", true}, {"stop", {"ttle", "zz"}}, {"max_tokens", 20}})},
      {"/v1/completions",
       with(greedy_text, {{"stream", true}, {"min_tokens", 4}, {"echo", true}, {"bad_words", {" was"}}})},
      {"/v1/completions", with(drawn, {{"stream", false}, {"best_of", 3}, {"max_tokens", 4}})},
      {"/v1/completions", with(drawn, {{"stream", false}, {"logprobs", 1}})},
      {"/v1/chat/completions", with(talk, {{"stream", true}, {"logprobs", true}, {"top_logprobs", 2}})},
      {"/v1/chat/completions",
       with(talk, {{"stream", true}, {"response_format", shape}, {"max_tokens", 40}})},
      {"/v1/chat/completions", with(talk, {{"n", 2}})},
      {"/v1/responses", {{"input", "A story"}, {"max_output_tokens", 6}, {"stream", true}}},
      {"/v1/responses", {{"input", "A story"}, {"max_output_tokens", 6}}},
      {"/v1/messages", with(talk, {{"stream", true}, {"stop_sequences", {"zz"}}})},
      {"/v1/messages", talk},
  };
  for (const Case& one : cases) EXPECT_GE(expect_continuations(server, one), 4U) << one.body;
  server.end();
}

// The server computes these answers from the beginning, and compares the tokens with the record.
TEST_F(ServeRecord, ContinuesAnswersThatCannotStartInTheMiddle) {
  ServedProgram server(kNoMpirun, announcing({}));
  const json text = {{"prompt", kPrompt}, {"max_tokens", 5}, {"temperature", 0}};
  const Case scored{"/v1/completions", with(text, {{"stream", true}, {"echo", true}, {"logprobs", 1}})};
  EXPECT_EQ(expect_continuations(server, scored), 5U);
  EXPECT_EQ(expect_continuations(server, {"/v1/completions", with(text, {{"beams", 3}})}), 5U);

  const HttpReply other = ask(server, scored, {"[0,0,5,0,0,0,-1.0,[]]"}, true);
  EXPECT_CONTAINS(other.body, "the answer cannot be continued: its token 0 is ");
  server.end();
}

TEST_F(ServeRecord, ContinuesWithDraftTokens) {
  ServedProgram server(kNoMpirun, announcing({"--speculate", "ngram"}));
  const json text = {
      {"prompt", "one two three one two three one two"}, {"max_tokens", 12}, {"temperature", 0.5}};
  EXPECT_EQ(expect_continuations(server, {"/v1/completions", with(text, {{"stream", true}})}), 12U);
  server.end();
}

TEST_F(ServeRecord, ContinuesCallsAndThinkingAfterEachToken) {
  const ScriptedModel model;
  ServedProgram server(kNoMpirun, announcing({"--model", model.folder.path().string()}));
  const json tools = {{{"name", "get_weather"}, {"input_schema", {{"type", "object"}}}}};
  const json question = {{{"role", "user"}, {"content", "The weather?"}}};
  const json script = {{"script", "call"}};
  std::vector<Case> cases;
  for (const bool stream : {true, false}) {
    for (const char* name : {"call", "two", "broken", "late"})
      cases.push_back({"/v1/chat/completions", chat(name, {{"stream", stream}})});
    cases.push_back({"/v1/chat/completions", chat("call", {{"stream", stream}, {"max_thinking_tokens", 3}})});
    cases.push_back({"/v1/chat/completions",
                     chat("call", {{"stream", stream}, {"tool_choice", "required"}, {"max_tokens", 60}})});
    cases.push_back({"/v1/messages",
                     {{"messages", question},
                      {"tools", tools},
                      {"max_tokens", 60},
                      {"temperature", 0},
                      {"stream", stream},
                      {"chat_template_kwargs", script}}});
    cases.push_back(
        {"/v1/responses",
         {{"input", question},
          {"tools", {{{"type", "function"}, {"name", "get_weather"}, {"parameters", {{"type", "object"}}}}}},
          {"temperature", 0},
          {"stream", stream},
          {"chat_template_kwargs", script}}});
  }
  for (const Case& one : cases) EXPECT_GE(expect_continuations(server, one), 5U) << one.body;
  server.end();
}

TEST_F(ServeRecord, TakesRecordsOnlyFromItsGateway) {
  ServedProgram server(kNoMpirun, announcing({}));
  const std::string body = greedy(2).dump();
  EXPECT_EQ(post_text(server.port(), "/v1/completions", body, {{"tp-gateway", "other"}}).status, 403);
  const Headers right = {{"tp-gateway", kSecret}, {"tp-record-bytes", "99999"}};
  EXPECT_EQ(post_text(server.port(), "/v1/completions", body, right).status, 400);
  for (const char* record : {"", "{}", "[1]", R"({"id":"1","created":1,"seed":-1,"begun":true,"tokens":[]})",
                             R"({"id":"1","created":1,"seed":1,"begun":true,"tokens":[[0,0,0,0,0]]})",
                             R"({"id":"1","created":1,"seed":1,"begun":true,"tokens":[[0,9,1,0,0,0]]})",
                             R"({"id":"1","created":1,"seed":1,"begun":true,"tokens":[[0,0,-1,0,0,0]]})"}) {
    const HttpReply reply =
        post_text(server.port(), "/v1/completions", record + body,
                  {{"tp-gateway", kSecret}, {"tp-record-bytes", std::to_string(std::string(record).size())}});
    EXPECT_EQ(reply.status, 400) << record << reply.body;
  }
  server.end();

  ServedProgram alone(kNoMpirun);
  EXPECT_EQ(alone.post("/v1/completions", greedy(2), {{"tp-gateway", ""}}).status, 200);
  EXPECT_EQ(alone.post("/v1/completions", greedy(2), {{"tp-gateway", kSecret}}).status, 403);
  EXPECT_EQ(alone.post("/v1/completions", greedy(2), {{"tp-record-bytes", "2"}}).status, 200)
      << "only a header";
  alone.end();
}

// The gateway may have keys, and the server may listen at an address of a network.
TEST_F(ServeRecord, AnswersOnlyItsGatewayWithoutKeysOfItsOwn) {
  ServedProgram server(kNoMpirun, announcing({}));
  const HttpReply refused = server.post("/v1/completions", greedy(2));
  EXPECT_EQ(refused.status, 403);
  EXPECT_CONTAINS(refused.body, "expected a request of the gateway");
  EXPECT_EQ(server.post("/v1/completions", greedy(2), {{"tp-gateway", ""}}).status, 403);
  EXPECT_EQ(server.post("/v1/completions", greedy(2), {{"tp-user", "anna"}}).status, 403);
  for (const char* path : {"/v1/models", "/metrics", "/v1/status", "/nothing"})
    EXPECT_EQ(get(server.port(), path).status, 403) << path;
  EXPECT_EQ(get(server.port(), "/health").status, 200);
  EXPECT_EQ(get(server.port(), "/v1/models", {{"tp-gateway", kSecret}}).status, 200);
  server.end();
}

TEST_F(ServeRecord, AnswersOthersWithKeysOfItsOwn) {
  ServedProgram server(kNoMpirun, announcing({"--api-key", "own"}));
  EXPECT_EQ(server.post("/v1/completions", greedy(2)).status, 401);
  const HttpReply plain = server.post("/v1/completions", greedy(2), {{"Authorization", "Bearer own"}});
  EXPECT_EQ(plain.status, 200);
  EXPECT_EQ(plain.headers.count("tp-marks"), 0U);
  server.end();
}

}  // namespace
}  // namespace tp::test
