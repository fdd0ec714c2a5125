// Answers restricted to calls: texts that grammars allow are read back, and texts that templates write are
// allowed.
#include "runtime/chat/answer_grammar.h"

#include "runtime/chat/message_reader.h"
#include "runtime/constraint/constraint_compiler.h"
#include "runtime/constraint/grammar/state_machine.h"
#include "runtime/constraint/shortest_texts.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/runtime/chat/chat_fixture.h"
#include "tests/runtime/constraint/text_matcher.h"
#include "tp/error.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using constraint::TextMatcher;

const Json kHeldTools = Json::parse(R"([
  {"type": "function", "function": {"name": "get_weather", "strict": true, "parameters": {"type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["city", "days"]}}},
  {"type": "function", "function": {"name": "note", "strict": true, "parameters": {"type": "object",
    "properties": {"text": {"type": "string"}}, "required": ["text"]}}},
  {"type": "function", "function": {"name": "get_time"}}])");

void expect_allowed_call(const ToolCall& call) {
  const Json arguments = Json::parse(call.arguments);
  if (call.name == "get_weather") {
    ASSERT_EQ(arguments.size(), 2U) << call.arguments;
    EXPECT_TRUE(arguments.at("city") == "Oslo" || arguments.at("city") == "Rome") << call.arguments;
    EXPECT_TRUE(arguments.at("days") >= 1 && arguments.at("days") <= 7) << call.arguments;
  } else if (call.name == "note") {
    ASSERT_EQ(arguments.size(), 1U) << call.arguments;
    EXPECT_TRUE(arguments.at("text").is_string()) << call.arguments;
  } else {
    EXPECT_EQ(call.name, "get_time");
  }
}

// Returns a text of a grammar: random bytes first, then the shortest way to its end.
std::string random_text(const constraint::Automaton& automaton, std::mt19937& random) {
  constraint::StateMachine machine(automaton);
  constraint::ShortestTexts distances(machine);
  constraint::StateId state = machine.start();
  std::string text;
  const std::size_t free = random() % 300;
  while (!machine.ends(state) || (text.size() < free && !machine.is_final(state))) {
    std::vector<std::pair<std::uint64_t, int>> next;
    for (int byte = 0; byte < 256; ++byte) {
      const constraint::StateId after = machine.next(state, static_cast<std::uint8_t>(byte));
      if (after != constraint::kDead) next.emplace_back(distances.after(after), byte);
    }
    const int byte =
        text.size() < free ? next[random() % next.size()].second : std::ranges::min_element(next)->second;
    text += static_cast<char>(byte);
    state = machine.next(state, static_cast<std::uint8_t>(byte));
  }
  return text;
}

struct HeldAnswer {
  HeldAnswer(const ChatFixture& fixture, const Json& tools, const CallRules& rules)
      : gbnf(call_grammar(fixture.rendering.call_shape(), fixture.rendering.syntax(), tools, rules)),
        syntax{.is_plain = false,
               .syntax = fixture.rendering.syntax(),
               .has_one_call = rules.has_one_call,
               .tools = ToolSet(tools)} {
    syntax.syntax.calls = only_of_shape(syntax.syntax.calls, fixture.rendering.call_shape());
  }

  TextMatcher matcher() const { return TextMatcher(Constraint(constraint::Grammar{gbnf})); }
  Message read(const std::string& text) const {
    Message message = read_message(syntax, text);
    const auto reader = make_message_reader(syntax);
    Message bytewise;
    for (const char byte : text) {
      for (MessagePiece piece : reader->push({&byte, 1})) bytewise.add(piece);
    }
    for (MessagePiece piece : reader->finish(Ending::complete)) bytewise.add(piece);
    EXPECT_EQ(bytewise.text, message.text);
    EXPECT_EQ(bytewise.calls.size(), message.calls.size());
    return message;
  }

  std::string gbnf;
  AnswerSyntax syntax;
};

// The whole answer consists of calls that match their schemas.
TEST(CallGrammar, RequiredCallsAreReadBackForEveryTemplate) {
  std::mt19937 random(5);
  std::size_t several = 0;
  for (const auto& file : chat_fixtures()) {
    SCOPED_TRACE(file.filename().string());
    const ChatFixture fixture(file);
    for (const bool has_one : {false, true}) {
      const HeldAnswer held(fixture, kHeldTools, {.required = true, .has_one_call = has_one});
      const constraint::Automaton automaton =
          constraint::build_automaton(constraint::grammar_of(constraint::Grammar{held.gbnf}));
      for (int i = 0; i < 15; ++i) {
        const std::string text = random_text(automaton, random);
        const Message message = held.read(text);
        EXPECT_EQ(message.text, "") << text << "\n" << held.gbnf;
        ASSERT_GE(message.calls.size(), 1U) << text << "\n" << held.gbnf;
        several += message.calls.size() > 1 ? 1 : 0;
        if (has_one) {
          EXPECT_EQ(message.calls.size(), 1U) << text;
        }
        for (const ToolCall& call : message.calls) expect_allowed_call(call);
      }
    }
  }
  EXPECT_GT(several, 10U);
}

TEST(CallGrammar, TextAndStrictCallsAreReadBackForEveryTemplate) {
  std::mt19937 random(6);
  for (const auto& file : chat_fixtures()) {
    SCOPED_TRACE(file.filename().string());
    const ChatFixture fixture(file);
    const HeldAnswer held(fixture, kHeldTools, {});
    const constraint::Automaton automaton =
        constraint::build_automaton(constraint::grammar_of(constraint::Grammar{held.gbnf}));
    for (int i = 0; i < 15; ++i) {
      for (const ToolCall& call : held.read(random_text(automaton, random)).calls) expect_allowed_call(call);
    }
    TextMatcher matcher = held.matcher();
    for (const char* text : {"It is sunny.", "", " <b>a</b>\n[1]", "get", "é☃"})
      EXPECT_TRUE(matcher.matches(text)) << text << "\n" << held.gbnf;
    const CallShape& shape = fixture.rendering.call_shape();
    const auto call = [&](const std::string& name, const std::string& arguments) {
      std::string text = shape.begin + name + shape.middle + arguments + shape.end;
      return (shape.marker.empty() ? "" : "Let me see.\n") + text;
    };
    EXPECT_TRUE(matcher.matches(call("get_weather", R"({"city": "Rome", "days": 2})"))) << held.gbnf;
    EXPECT_TRUE(matcher.matches(call("get_time", R"({"any": ["thing"]})"))) << held.gbnf;
    EXPECT_FALSE(matcher.begins(call("get_weather", R"({"city": "Paris", "days": 2})"))) << held.gbnf;
    // The answer may be text if no sign precedes a name.
    EXPECT_TRUE(held.read(call("get_rain", "{}")).calls.empty());
  }
}

// Random walks write calls and schema texts. Markers of calls inside a text stay text.
TEST(CallsOrConstraint, AreReadBackForEveryTemplate) {
  std::mt19937 random(7);
  const Constraint shape = constraint::JsonSchema{
      .schema = R"({"type": "object", "properties": {"t": {"type": "string"}}, "required": ["t"]})"};
  std::size_t calls = 0;
  std::size_t texts = 0;
  for (const auto& file : chat_fixtures()) {
    SCOPED_TRACE(file.filename().string());
    const ChatFixture fixture(file);
    for (const bool required : {false, true}) {
      const CallRules rules{.required = required};
      HeldAnswer held(fixture, kHeldTools, rules);
      held.syntax.calls_come_first = true;
      const std::string frame = calls_or_constraint_grammar(
          fixture.rendering.call_shape(), fixture.rendering.syntax(), kHeldTools, rules, Thinking::never);
      const auto grammar = [&] { return constraint::grammar_of(shape, frame); };
      const constraint::Automaton automaton = constraint::build_automaton(grammar());
      for (int i = 0; i < 8; ++i) {
        const std::string text = random_text(automaton, random);
        const Message message = held.read(text);
        for (const ToolCall& call : message.calls) expect_allowed_call(call);
        if (message.calls.empty()) {
          EXPECT_TRUE(!required && Json::parse(message.text).at("t").is_string()) << text;
        } else {
          EXPECT_EQ(message.text, "") << text;
        }
        ++(message.calls.empty() ? texts : calls);
      }
      const MessageSyntax& syntax = held.syntax.syntax;
      const std::string marker = syntax.calls.begins.empty() ? "{" : syntax.calls.begins.front();
      const std::string tricky =
          Json{{"t", marker + "get_time" + syntax.calls.end + marker + "[get_time()]" + syntax.calls.end}}
              .dump();
      const std::string header = syntax.has_channels ? "<|channel|>final<|message|>" : "";
      EXPECT_EQ(TextMatcher(grammar()).matches(header + tricky), !required) << frame;
      EXPECT_FALSE(TextMatcher(grammar()).begins("It is sunny.")) << frame;
      EXPECT_EQ(held.read(header + tricky).text, tricky);
    }
  }
  EXPECT_GT(calls, 100U);
  EXPECT_GT(texts, 50U);
}

// A model is restricted to its own notation, if the notation contains JSON.
TEST(CallGrammar, AllowsCallsAsTemplatesWriteThem) {
  if (!has_published_templates()) GTEST_SKIP() << "../shared/fixtures/chat is not there";
  const Json call = Json::array({"get_weather", {{"city", "Rome"}, {"days", 2}}});
  std::set<std::string> native;
  for (const auto& file : chat_fixtures()) {
    const ChatFixture fixture(file);
    TextMatcher matcher = HeldAnswer(fixture, kHeldTools, {.required = true}).matcher();
    std::string answer = answer_of(fixture, Json::array({call}));
    answer.erase(0, answer.find_first_not_of(" \n"));
    if (matcher.matches(answer)) native.insert(file.stem());
  }
  for (const char* name : {"qwen2.5", "llama-3.1", "mistral-v0.3", "lc-mistral-nemo-instruct-2407",
                           "lc-granite-3.0-8b-instruct", "deepseek-r1-distill", "lc-chatglm4"})
    EXPECT_TRUE(native.contains(name)) << name;
}

TEST(CallGrammar, ANamedToolIsTheOnlyOne) {
  const std::string source = "{{ messages }}<tool_call></tool_call>";
  const MessageSyntax syntax = syntax_of_template(source);
  const CallShape shape =
      find_call_shape(syntax, [](const Json&, bool) { return std::optional<std::string>(); });
  const CallRules rules{.required = true, .has_one_call = true, .name = "note"};
  TextMatcher matcher(Constraint(constraint::Grammar{call_grammar(shape, syntax, kHeldTools, rules)}));
  const std::string note =
      "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"text\": \"a\"}}\n</tool_call>";
  EXPECT_TRUE(matcher.matches(note));
  EXPECT_FALSE(matcher.begins(note + "\n"));
  EXPECT_FALSE(matcher.begins("<tool_call>\n{\"name\": \"get"));
  EXPECT_FALSE(matcher.begins("I"));
}

// gpt-oss sends calls to functions, and texts into its last channel.
TEST(CallGrammar, CoversChannels) {
  const MessageSyntax syntax = syntax_of_template("<|channel|>");
  const CallShape shape =
      find_call_shape(syntax, [](const Json&, bool) { return std::optional<std::string>(); });
  TextMatcher matcher(Constraint(constraint::Grammar{call_grammar(shape, syntax, kHeldTools, {})}));
  EXPECT_TRUE(matcher.matches("<|channel|>final<|message|>It is {sunny}."));
  EXPECT_TRUE(matcher.matches("<|channel|>commentary to=functions.note<|message|>{\"text\": \"\"}"));
  EXPECT_FALSE(matcher.begins("<|channel|>commentary to=functions.note<|message|>{\"city\""));
}

TEST(CallGrammar, RejectsParametersWithoutAnObjectSchema) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("x")", "`tools`: expected as parameters of `f` a JSON Schema of the type object, found \"x\""},
      {R"({"type": "string"})", "a JSON Schema of the type object, found \"string\"; correct it"},
      {R"({"properties": {"a": {"uniqueItems": true}}})",
       "`tools`: parameters of `f`: the JSON Schema at `/properties/a"},
  };
  const MessageSyntax syntax = syntax_of_template("");
  const CallShape shape =
      find_call_shape(syntax, [](const Json&, bool) { return std::optional<std::string>(); });
  for (const auto& [parameters, text] : cases) {
    const Json function = {{"name", "f"}, {"parameters", Json::parse(parameters)}};
    EXPECT_CONTAINS(
        test::error_of<RequestError>([&] {
          call_grammar(shape, syntax, Json::array({{{"function", function}}}), {.required = true});
        }),
        text)
        << parameters;
  }
}

TEST(CallGrammar, ToolsShareOneBudget) {
  const MessageSyntax syntax = syntax_of_template("");
  const CallShape shape =
      find_call_shape(syntax, [](const Json&, bool) { return std::optional<std::string>(); });
  const auto error_of = [&](std::size_t count, const Json& parameters) -> std::string {
    Json tools = Json::array();
    for (std::size_t i = 0; i < count; ++i) {
      const Json function = {{"name", "f" + std::to_string(i)}, {"parameters", parameters}};
      tools.push_back({{"function", function}});
    }
    return error_or_none<RequestError>([&] { call_grammar(shape, syntax, tools, {.required = true}); });
  };
  const Json parameters = {
      {"type", "object"},
      {"properties", {{"a", {{"type", "string"}, {"pattern", "^(?=a)(?:[ab]{1,500}c){1,5}$"}}}}}};
  EXPECT_EQ(error_of(1, parameters), "no error");
  EXPECT_CONTAINS(error_of(100, parameters), "the constraint takes too long");
  EXPECT_EQ(error_of(512, Json()), "no error");
  EXPECT_EQ(error_of(513, Json()), "`tools`: expected at most 512 tools, found 513; offer fewer");
}

TEST(FrameGrammar, MatchesTheTextBeforeAnAnswer) {
  const auto matches = [](const std::string& source, Thinking thinking, bool has_calls,
                          const std::string& text) {
    const std::string frame = frame_grammar(syntax_of_template(source), thinking, has_calls);
    return TextMatcher(constraint::grammar_of(constraint::Choice{{"yes"}}, frame)).matches(text);
  };
  const std::string thinks = "<think></think>";
  EXPECT_TRUE(matches(thinks, Thinking::maybe, false, "<think>Hm, \"no\"?\n</think>\n\nyes"));
  EXPECT_TRUE(matches(thinks, Thinking::maybe, false, "yes"));
  EXPECT_TRUE(matches(thinks, Thinking::begun, false, "Hm</think>yes"));
  EXPECT_FALSE(matches(thinks, Thinking::begun, false, "yes"));
  EXPECT_FALSE(matches(thinks, Thinking::never, false, "<think>Hm</think>yes"));
  EXPECT_TRUE(matches("", Thinking::maybe, false, "yes"));
  const std::string cohere = "<|START_THINKING|><|END_THINKING|><|START_RESPONSE|>";
  EXPECT_TRUE(
      matches(cohere, Thinking::maybe, false, "<|START_THINKING|>Hm<|END_THINKING|><|START_RESPONSE|>yes"));
  EXPECT_TRUE(matches(cohere, Thinking::never, false, "<|START_RESPONSE|>yes"));
  EXPECT_TRUE(matches(cohere, Thinking::never, false, "yes"));
  EXPECT_FALSE(matches(cohere, Thinking::never, true, "<|START_RESPONSE|>yes"));
  const std::string analysis = "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant";
  EXPECT_TRUE(matches("<|channel|>", Thinking::maybe, false, "<|channel|>final<|message|>yes"));
  EXPECT_TRUE(matches("<|channel|>", Thinking::maybe, false, analysis + "<|channel|>final<|message|>yes"));
  EXPECT_FALSE(matches("<|channel|>", Thinking::maybe, false, "yes"));
  EXPECT_TRUE(matches("<|channel|>", Thinking::maybe, true, analysis + "yes"));
}

}  // namespace
}  // namespace tp::test
