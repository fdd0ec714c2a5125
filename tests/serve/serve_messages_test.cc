// Conversations of the three APIs with a strict chat template.
#include "tests/serve/one_server.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

// The template combines restrictions: like Qwen3's, it searches for text in the content. Like Qwen3.5's, it
// rejects later system messages. Like Gemma's, it requires the user and the assistant to alternate.
constexpr const char* kStrict =
    "{% set n = namespace(user=true) %}{% for m in messages %}"
    "{% if m.role == 'system' and not loop.first %}{{ raise_exception('system first') }}{% endif %}"
    "{% if m.role in ['user', 'assistant'] and not m.tool_calls %}{% if (m.role == 'user') != n.user %}"
    "{{ raise_exception('turns') }}{% endif %}{% set n.user = not n.user %}{% endif %}"
    "[{{ m.role }}]{{ m.content if '</think>' not in m.content }}{% if 'tool_calls' in m %}"
    "{% for c in m.tool_calls %}<{{ c.function.name }} {{ c.function.arguments | tojson }}>{% endfor %}{% "
    "endif %}"
    "{% endfor %}";

const json kBody = json::parse(R"({"max_tokens": 1, "messages": [
  {"role": "system", "content": "S0"}, {"role": "developer", "content": "S1"},
  {"role": "user", "content": "U2"}, {"role": "user", "content": "U3"},
  {"role": "assistant", "content": "", "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]},
  {"role": "tool", "tool_call_id": "c1", "content": "R5"},
  {"role": "assistant", "content": "A6", "tool_calls": null, "refusal": null},
  {"role": "user", "content": "U7"}]})");

// kBody in the format of Anthropic's API.
const json kAnthropic = json::parse(
    R"({"max_tokens": 1, "system": [{"type": "text", "text": "S0"}, {"type": "text", "text": "S1"}],
  "messages": [
  {"role": "user", "content": "U2"}, {"role": "user", "content": "U3"},
  {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]},
  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "R5"}, {"type": "text", "text": "U6"}]},
  {"role": "assistant", "content": "A7"}, {"role": "user", "content": "U8"}]})");
const json kResponses = json::parse(R"({"max_output_tokens": 1, "instructions": "S0", "input": [
  {"role": "developer", "content": "S1"}, {"role": "user", "content": "U2"}, {"role": "user", "content": "U3"},
  {"type": "function_call", "call_id": "c1", "name": "f", "arguments": ""},
  {"type": "function_call_output", "call_id": "c1", "output": "R5"},
  {"role": "user", "content": "U6"}]})");

TEST(ServeMessages, ReachAStrictTemplateFromEveryApi) {
  const TemporaryDirectory directory;
  const std::string file = directory.write("strict.jinja", kStrict);
  ServedProgram server(kNoMpirun, {"--chat-template", file});
  EXPECT_EQ(server.post("/apply-template", kBody).json().at("prompt"),
            "[system]S0\n\nS1[user]U2\n\nU3[assistant]<f {}>[tool]R5[assistant]A6[user]U7");
  for (const auto& [path, body] : {std::pair("/v1/chat/completions", kBody),
                                   {"/v1/messages", kAnthropic},
                                   {"/v1/responses", kResponses}}) {
    const HttpReply reply = server.post(path, body);
    EXPECT_EQ(reply.status, 200) << path << reply.body;
  }
  server.end();
}

}  // namespace
}  // namespace tp::test
