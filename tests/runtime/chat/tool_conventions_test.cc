// Tools and calls in a template's form.
#include "runtime/chat/tool_conventions.h"

#include "tests/runtime/chat/chat_fixture.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

// Mistral's templates reject ids in OpenAI's form.
const std::string kNineCharacters =
    "{% for m in messages %}[{{ m.role }}]"
    "{% for c in m.tool_calls or [] %}{% if c.id is not defined or c.id|length != 9 %}"
    "{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}"
    "[TOOL_CALLS]{{ c.function.name }} {{ c.id }}{% endfor %}"
    "{% if m.role == 'tool' %}{% if m.tool_call_id|length != 9 %}{{ raise_exception('length') }}{% endif %}"
    "{{ m.tool_call_id }}{% endif %}{% endfor %}";

// Kimi K2 has the name only in the id.
const std::string kNamed =
    "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}"
    "{% if m.tool_calls %}<|tool_calls_section_begin|>{% for c in m.tool_calls %}"
    "<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>"
    "{% if c.function.arguments is string %}{{ c.function.arguments }}{% else %}{{ c.function.arguments | "
    "tojson }}"
    "{% endif %}<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>{% endif %}"
    "{% if m.role == 'tool' %}## Return of {{ m.tool_call_id }}{% endif %}<|im_end|>{% endfor %}";

// gpt-oss adds the description to a text.
const std::string kDescribed =
    "{% for t in tools or [] %}{{ '// ' + t.function.description + t.function.name }}{% endfor %}";

struct Conversing {
  explicit Conversing(const std::string& source)
      : chat(ChatTemplate::load_file(folder.write("template.jinja", source))),
        conventions(chat),
        rendering(chat) {}

  Json applied(Json conversation) const {
    conventions.apply(conversation);
    return conversation;
  }

  TemporaryDirectory folder;
  ChatTemplate chat;
  ToolConventions conventions;
  ToolRendering rendering;
};

Json call(const std::string& id, const std::string& name) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", "{}"}}}};
}

Json history(const std::string& first, const std::string& second) {
  const Json answer = {{"role", "assistant"},
                       {"content", ""},
                       {"tool_calls", Json::array({call(first, "get_weather"), call(second, "get_time")})}};
  return {{"messages", Json::array({user(),
                                    answer,
                                    {{"role", "tool"}, {"tool_call_id", second}, {"content", "noon"}},
                                    {{"role", "tool"}, {"tool_call_id", first}, {"content", "sunny"}}})}};
}

TEST(ToolConventions, IdsAreOfNineCharactersWhereOthersAreRefused) {
  const Conversing mistral(kNineCharacters);
  const Json messages = mistral.applied(history("call_a", "toolu_01")).at("messages");
  const auto id = [&](std::size_t i) { return messages[1].at("tool_calls")[i].at("id").get<std::string>(); };
  EXPECT_EQ(id(0).size(), 9U);
  EXPECT_NE(id(0), id(1));
  EXPECT_EQ(messages[2].at("tool_call_id"), id(1));
  EXPECT_EQ(messages[3].at("tool_call_id"), id(0));
  EXPECT_EQ(mistral.applied(history("abcdefghi", "AB3456789")), history("abcdefghi", "AB3456789"));
  EXPECT_NO_THROW(mistral.chat.render(mistral.applied(history("call_a", "functions.f:0"))));
}

TEST(ToolConventions, IdsNameTheFunctionWhereTheNotationContainsThem) {
  const Conversing kimi(kNamed);
  for (const char* first : {"call_a", "functions.get_weather:0"}) {
    const Json messages = kimi.applied(history(first, "toolu_01")).at("messages");
    EXPECT_EQ(messages[1].at("tool_calls")[0].at("id"), "functions.get_weather:0");
    EXPECT_EQ(messages[1].at("tool_calls")[1].at("id"), "functions.get_time:1");
    EXPECT_EQ(messages[2].at("tool_call_id"), "functions.get_time:1");
    EXPECT_EQ(messages[3].at("tool_call_id"), "functions.get_weather:0");
  }
  EXPECT_EQ(kimi.rendering.call_shape().begin, "<|tool_calls_section_begin|><|tool_call_begin|>functions.");
  EXPECT_EQ(kimi.rendering.call_shape().middle, ":0<|tool_call_argument_begin|>");
}

TEST(ToolConventions, OtherIdsStay) {
  const Conversing plain("{% for m in messages %}{{ m.role }}{% endfor %}");
  EXPECT_EQ(plain.applied(history("call_a", "toolu_01")), history("call_a", "toolu_01"));
}

TEST(ToolConventions, ToolsGetADescriptionIfTheTemplateFailsWithoutOne) {
  const Json tools = Json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
  const Json conversation = {{"messages", Json::array({user()})}, {"tools", tools}};
  const Conversing described(kDescribed);
  EXPECT_EQ(described.chat.render(described.applied(conversation)).text(), "// f");
  EXPECT_EQ(Conversing("{{ tools | tojson }}").applied(conversation), conversation);
}

}  // namespace
}  // namespace tp::test
