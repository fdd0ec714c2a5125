// Clients' messages in the form that a chat template expects.
#include "runtime/chat/tool_rendering.h"

#include "runtime/chat/message_order.h"
#include "tests/expect_contains.h"
#include "tests/runtime/chat/chat_fixture.h"
#include "tp/error.h"

#include <map>
#include <tuple>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

class Rendering {
 public:
  explicit Rendering(const std::string& source)
      : chat_(ChatTemplate::load_file(folder_.write("template.jinja", source))), rendering_(chat_) {}

  std::string operator()(const Json& messages, Json variables = Json::object()) const {
    variables["messages"] = messages;
    try {
      return chat_.render(rendering_.adapted(chat_, variables)).text();
    } catch (const RequestError& error) {
      return std::string("error: ") + error.what();
    }
  }
  const CallShape& call_shape() const { return rendering_.call_shape(); }

 private:
  TemporaryDirectory folder_;
  ChatTemplate chat_;
  ToolRendering rendering_;
};

Json says(const char* role, const Json& content) { return {{"role", role}, {"content", content}}; }
const Json kQuestion = says("user", "a");
const Json kResult = {{"role", "tool"}, {"tool_call_id", "abcdefghi"}, {"content", "sunny"}};

Json calls(const Json& content, const Json& arguments = {{"city", "Oslo"}}) {
  const Json function = {{"name", "get_weather"}, {"arguments", arguments}};
  return {{"role", "assistant"},
          {"content", content},
          {"tool_calls", Json::array({{{"id", "abcdefghi"}, {"type", "function"}, {"function", function}}})}};
}

const char* const kCallLoop =
    "{% for c in m.tool_calls or [] %}<tool_call>{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}";
const std::string kCall = R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>)";
const char* const kEnd = "{% endfor %}";

// Qwen3, QwQ, gpt-oss, Devstral and others search the content for parts.
const std::string kNeedsContent =
    std::string(
        "{% for m in messages %}[{{ m.role }}]{% if '</think>' in m.content %}?{% endif %}"
        "{{ m.content }}") +
    kCallLoop + kEnd;
// GLM-4.6 and MiniMax-M2 print any content.
const std::string kPrintsNone =
    std::string("{% for m in messages %}[{{ m.role }}]{{ m.content }}") + kCallLoop + kEnd;
// DeepSeek-R1 writes calls only for messages without content.
const std::string kNullOnly = std::string("{% for m in messages %}[{{ m.role }}]{% if m.content is none %}") +
                              kCallLoop + "{% else %}{{ m.content }}{% endif %}" + kEnd;
// DeepSeek-V3 writes arguments as a text.
const std::string kWantsTexts =
    "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
    "<{{ c.function.name }} {{ c.function.arguments }}>{% endfor %}{% endfor %}";

TEST(ToolRendering, ContentWithCallsFollowsTheTemplate) {
  for (const std::string& source : {kNeedsContent, kPrintsNone, kNullOnly}) {
    const Rendering rendered(source);
    for (const Json& content : {Json(), Json("")})
      EXPECT_EQ(rendered({kQuestion, calls(content), kResult}), "[user]a[assistant]" + kCall + "[tool]sunny")
          << source << content;
    Json absent = calls(nullptr);
    absent.erase("content");
    EXPECT_EQ(rendered({kQuestion, absent}), "[user]a[assistant]" + kCall) << source;
    EXPECT_EQ(rendered.call_shape().marker, "<tool_call>") << source;
    EXPECT_EQ(rendered.call_shape().end, "}</tool_call>") << source;
  }
  EXPECT_EQ(Rendering(kPrintsNone)({kQuestion, calls("So:")}), "[user]a[assistant]So:" + kCall);
  EXPECT_EQ(Rendering(kNullOnly)({kQuestion, calls("So:")}), "[user]a[assistant]So:[assistant]" + kCall);
}

// A template may write calls, but reject or drop their results.
TEST(ToolRendering, ResultsThatTheTemplateLacksAreSaidByTheUser) {
  const Rendering refusing(
      std::string("{% for m in messages %}{% if m.role == 'tool' %}"
                  "{{ raise_exception('no tools') }}{% endif %}[{{ m.role }}]{{ m.content }}") +
      kCallLoop + kEnd);
  const Rendering dropping(
      std::string("{% for m in messages if m.role != 'tool' %}[{{ m.role }}]{{ m.content }}") + kCallLoop +
      kEnd);
  for (const Rendering* rendered : {&refusing, &dropping})
    EXPECT_EQ((*rendered)({kQuestion, calls(""), kResult}),
              "[user]a[assistant]" + kCall + "[user]Result of the function: sunny");
}

// A template that accepts both forms gets the client's form.
TEST(ToolRendering, AnEmptyContentStaysEmpty) {
  const Rendering rendered(std::string("{% for m in messages %}[{{ m.content is none }}]") + kCallLoop +
                           kEnd);
  EXPECT_EQ(rendered({kQuestion, calls("")}), "[False][False]" + kCall);
  EXPECT_EQ(rendered({kQuestion, calls(nullptr)}), "[False][True]" + kCall);
}

TEST(ToolRendering, MembersWithoutAValueAreLeftOut) {
  const Rendering rendered("{% for m in messages %}{{ m.keys() | list }}{{ m.content }}{% endfor %}");
  for (const Json& none : {Json(), Json::array()}) {
    const Json answer = {{"role", "assistant"}, {"content", "b"}, {"tool_calls", none}};
    EXPECT_EQ(rendered({kQuestion, answer}), "['role', 'content']a['role', 'content']b") << none;
  }
  const Json answer = Json::parse(R"({"role": "assistant", "content": null, "refusal": null, "audio": null,
    "function_call": null, "reasoning_content": null, "name": null})");
  EXPECT_EQ(rendered({kQuestion, answer}), "['role', 'content']a['role', 'content']");
}

// A broken text of the model stays in the history, and must not end the conversation.
TEST(ToolRendering, ArgumentsAreAnObjectOrTheTextThatTheModelWrote) {
  const Rendering objects(kPrintsNone);
  const Rendering texts(kWantsTexts);
  const std::vector<std::tuple<Json, std::string, std::string>> cases = {
      {Json("{\"city\":  \"Oslo\"}"), R"({"city": "Oslo"})", "{\"city\":  \"Oslo\"}"},
      {Json({{"city", "Oslo"}}), R"({"city": "Oslo"})", R"({"city":"Oslo"})"},
      {Json(""), "{}", "{}"},
      {Json(), "{}", "{}"},
      {Json("{\"city\": \"Os"), "{}", "{\"city\": \"Os"},
      {Json("[1]"), "{}", "[1]"},
      {Json::array({1}), "{}", "{}"}};
  for (const auto& [arguments, object, text] : cases) {
    EXPECT_EQ(objects({kQuestion, calls("", arguments)}),
              "[user]a[assistant]<tool_call>{\"name\": \"get_weather\", \"arguments\": " + object +
                  "}</tool_call>");
    EXPECT_EQ(texts({kQuestion, calls("", arguments)}), "[user]a[assistant]<get_weather " + text + ">");
  }
  const Rendering described("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(described({kQuestion, calls("", "{")}), R"(a{"name":"get_weather","arguments":{}})");
}

// A text can have more levels than the stack allows for copies.
TEST(ToolRendering, ArgumentsThatExceedTheLimitsOfJsonAreAnEmptyObject) {
  const Rendering objects(kPrintsNone);
  const Rendering described("{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::string levels(100'000, '[');
  std::string members = "{\"0\": 0";
  for (int i = 1; i < 4000; ++i) members += ", \"" + std::to_string(i) + "\": 0";
  for (const std::string& arguments :
       {levels, "{\"a\": " + levels + std::string(levels.size(), ']') + "}", members + "}"}) {
    EXPECT_EQ(objects({kQuestion, calls("", arguments)}),
              "[user]a[assistant]<tool_call>{\"name\": \"get_weather\", \"arguments\": {}}</tool_call>");
    EXPECT_EQ(described({kQuestion, calls("", arguments)}), R"(a{"name":"get_weather","arguments":{}})");
  }
}

// A template's rules for orders of roles that its model was not trained with.
struct OrderRules {
  std::string name;
  std::string source;
};

const std::string kWrites =
    "<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }} "
    "{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";
const OrderRules kOrderRules[] = {
    {"accepts all", "{% for m in messages %}" + kWrites},
    {"refuses later system messages",
     "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('first') }}"
     "{% endif %}" +
         kWrites},
    {"drops later system messages",
     "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{% continue %}{% endif %}" +
         kWrites},
    {"drops later system messages by a loop over the rest",
     "{% if messages[0].role == 'system' %}<system>{{ messages[0].content }}{% endif %}"
     "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}" +
         kWrites},
    {"refuses the system",
     "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}" +
         kWrites},
    {"drops the system", "{% for m in messages if m.role != 'system' %}" + kWrites},
    {"wants turns without a system",
     "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ "
     "raise_exception('turns') "
     "}}{% endif %}" +
         kWrites},
    {"wants turns, where calls and results do not count",
     "{% set n = namespace(i=0) %}{% set rest = messages[1:] if messages[0].role == 'system' else messages %}"
     "{% for m in rest %}{% if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}"
     "{% if (m.role == 'user') != (n.i % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}"
     "{% set n.i = n.i + 1 %}{% elif m.role == 'system' %}{{ raise_exception('system') }}{% endif %}{% "
     "endfor %}"
     "{% for m in rest %}{% if m.role == 'user' and loop.index == 1 and messages[0].role == 'system' %}"
     "<system>{{ messages[0].content }}{% endif %}" +
         kWrites},
    {"wants a user",
     "{% if not messages | selectattr('role', 'equalto', 'user') | list %}{{ raise_exception('no query') }}"
     "{% endif %}{% for m in messages %}" +
         kWrites}};

const Json kOrders = Json::parse(R"([
  [["system", "S0"], ["user", "U1"]],
  [["system", "S0"], ["system", "S1"], ["user", "U2"]],
  [["developer", "S0"], ["system", "S1"], ["user", "U2"], ["assistant", "A3"], ["user", "U4"]],
  [["user", "U0"], ["system", "S1"]],
  [["user", "U0"], ["assistant", "A1"], ["developer", "S2"], ["user", "U3"]],
  [["system", "S0"], ["user", "U1"], ["system", "S2"], ["user", "U3"], ["assistant", "A4"], ["user", "U5"]],
  [["user", "U0"], ["user", "U1"]],
  [["user", "U0"], ["assistant", "A1"], ["assistant", "A2"], ["user", "U3"], ["user", "U4"]],
  [["assistant", "A0"], ["user", "U1"]],
  [["system", "S0"]],
  [["system", "S0"], ["assistant", "A1"]],
  [["user", "U0"], ["calls", ""], ["tool", "T2"], ["user", "U3"]],
  [["system", "S0"], ["user", "U1"], ["calls", ""], ["tool", "T2"], ["system", "S3"], ["user", "U4"],
   ["assistant", "A5"], ["user", "U6"], ["user", "U7"]]
])");

Json messages_of(const Json& order) {
  Json messages = Json::array();
  for (const Json& pair : order) {
    const std::string role = pair.at(0);
    if (role == "calls")
      messages.push_back(calls(nullptr));
    else if (role == "tool")
      messages.push_back({{"role", role}, {"tool_call_id", "abcdefghi"}, {"content", pair.at(1)}});
    else
      messages.push_back(says(role.c_str(), pair.at(1)));
  }
  return messages;
}

TEST(MessageOrder, NothingIsLostIfTheTemplateRejectsOrDropsMessages) {
  for (const OrderRules& rules : kOrderRules) {
    SCOPED_TRACE(rules.name);
    const Rendering rendered(rules.source);
    for (const Json& order : kOrders) {
      const std::string text = rendered(messages_of(order));
      EXPECT_FALSE(text.starts_with("error")) << order;
      for (const Json& pair : order) EXPECT_CONTAINS(text, pair.at(1).get<std::string>()) << order;
    }
  }
}

// Uses the templates of the corpus and of published models.
TEST(MessageOrder, NothingIsLostInWholeTemplates) {
  std::map<std::string, std::string> sources;
  for (const auto& entry : std::filesystem::directory_iterator(TP_TEST_DATA "/chat_templates")) {
    if (entry.path().extension() == ".jinja")
      sources[entry.path().stem()] = ChatFixture::source_in(entry.path());
  }
  sources.erase("38_words_and_breaks");  // which shows four messages
  for (const auto& file : chat_fixtures()) sources[file.stem()] = ChatFixture::source_in(file);
  EXPECT_GE(sources.size(), has_published_templates() ? 65U : 45U);
  for (const auto& [name, source] : sources) {
    SCOPED_TRACE(name);
    const Rendering rendered(source);
    for (const Json& order : kOrders) {
      const std::string text = rendered(messages_of(order), {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
      EXPECT_FALSE(text.starts_with("error")) << order;
      for (const Json& pair : order) EXPECT_CONTAINS(text, pair.at(1).get<std::string>()) << order;
    }
  }
}

TEST(MessageOrder, ChangesAsLittleAsTheTemplateNeeds) {
  const auto rendered = [](std::size_t rules, std::size_t order) {
    return Rendering(kOrderRules[rules].source)(messages_of(kOrders.at(order)));
  };
  EXPECT_EQ(rendered(0, 5), "<system>S0<user>U1<system>S2<user>U3<assistant>A4<user>U5");
  EXPECT_EQ(rendered(0, 2), "<system>S0<system>S1<user>U2<assistant>A3<user>U4");
  EXPECT_EQ(rendered(1, 1), "<system>S0\n\nS1<user>U2");
  EXPECT_EQ(rendered(1, 4), "<system>S2<user>U0<assistant>A1<user>U3");
  EXPECT_EQ(rendered(2, 5), "<system>S0\n\nS2<user>U1<user>U3<assistant>A4<user>U5");
  EXPECT_EQ(rendered(4, 0), "<user>S0<user>U1");
  EXPECT_EQ(rendered(6, 0), "<user>S0\n\nU1");
  EXPECT_EQ(rendered(6, 4), "<user>U0<assistant>A1<user>S2\n\nU3");
  EXPECT_EQ(rendered(6, 7), "<user>U0<assistant>A1\n\nA2<user>U3\n\nU4");
  EXPECT_EQ(rendered(6, 8), "<user><assistant>A0<user>U1");
  EXPECT_EQ(rendered(7, 11), R"(<user>U0<assistant>get_weather {"city": "Oslo"}<tool>T2<assistant><user>U3)");
  EXPECT_EQ(rendered(8, 9), "<user>S0");
}

// If the template rejects every order, it gets the client's order and gives the reason.
TEST(MessageOrder, StaysTheClientsIfTheTemplateRejectsEveryOrder) {
  const Rendering rendered("{{ raise_exception('never ' ~ messages[0].role) }}");
  EXPECT_CONTAINS(rendered(messages_of(kOrders.at(1))), "never system");
}

// Long conversations are rendered only once.
TEST(MessageOrder, ManyMessagesStayUnchanged) {
  Json messages = Json::array();
  for (int i = 0; i < 10'001; ++i) messages.push_back(says("user", "a"));
  int renderings = 0;
  const Json arranged = in_accepted_order(messages, [&](const Json&) {
    ++renderings;
    return std::string();
  });
  EXPECT_EQ(renderings, 0);
  EXPECT_EQ(arranged, messages);
}

// Conversations of thousands of messages are joined and searched without comparing all pairs.
TEST(MessageOrder, ThousandsOfMessagesAreJoined) {
  const Rendering rendered(kOrderRules[6].source);
  Json messages = Json::array();
  std::string text = "<user>m";
  for (int i = 0; i < 9999; ++i) messages.push_back(says("user", "m"));
  for (int i = 1; i < 9999; ++i) text += "\n\nm";
  EXPECT_EQ(rendered(messages), text);
}

// Clients' texts are not checked, because the template may reject their content.
TEST(MessageOrder, ContentsOfOtherKindsStay) {
  const Rendering rendered(kOrderRules[1].source);
  const Json parts = Json::array({{{"type", "text"}, {"text", "x"}}});
  EXPECT_EQ(rendered({says("user", parts), says("user", "y")}),
            "<user>[{'type': 'text', 'text': 'x'}]<user>y");
}

TEST(ToolRendering, AToolTemplateGetsTheTools) {
  const TemporaryDirectory folder;
  folder.write("chat_template.jinja", "plain {{ messages[0].content }}");
  std::filesystem::create_directory(folder.path() / "additional_chat_templates");
  folder.write("additional_chat_templates/tool_use.jinja",
               "{{ tools | length }} tools {{ messages[0].content }}");
  const ChatTemplate chat = *ChatTemplate::load(folder.path());
  const ToolRendering rendering(chat);
  const Json conversation = {{"messages", {kQuestion}}, {"tools", kTools}};
  EXPECT_EQ(chat.render(rendering.adapted(chat, conversation)).text(), "2 tools a");
}

}  // namespace
}  // namespace tp::test
