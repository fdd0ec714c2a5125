// Messages in a model's text, in the families' notations.
#include "tests/runtime/chat/call_notations.h"
#include "tests/runtime/chat/read_messages.h"

namespace tp::test {
namespace {

using Kind = MessagePiece::Kind;
using Said = std::vector<std::pair<Kind, std::string>>;

Said said(const MessagePieces& pieces) {
  Said list;
  for (const MessagePiece& piece : pieces) list.emplace_back(piece.kind, piece.text);
  return list;
}

Said said_of(MessageReader& reader, const std::string& text) { return said(reader.push(text)); }

const Json kTools = Json::parse(R"([
  {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties":
    {"city": {"type": "string"}, "days": {"type": "integer"}}}}},
  {"type": "function", "function": {"name": "note", "parameters": {"type": "object"}}}])");

AnswerSyntax syntax_of(const std::string& template_source) {
  return test::syntax_of(template_source, kTools);
}
AnswerSyntax syntax_without_tools(const std::string& template_source) {
  return test::syntax_of(template_source, nullptr);
}

TEST(MessageReader, ReadsTwoCallsInEveryNotation) {
  for (const Notation& notation : notations()) {
    SCOPED_TRACE(notation.name);
    EXPECT_EQ(read(syntax_of(notation.sign), notation.two_calls), message("", two_calls()));
    EXPECT_EQ(read(syntax_of(notation.sign), "\n" + notation.two_calls + "\n"), message("", two_calls()));
  }
}

TEST(MessageReader, KeepsTheTextBeforeAndAfterCalls) {
  for (const Notation& notation : notations()) {
    if (notation.two_calls.starts_with('{') || notation.two_calls.starts_with('[') ||
        notation.sign == "<|channel|>")
      continue;  // calls without a marker fill the whole answer
    if (notation.name == "Mistral, a list") continue;
    SCOPED_TRACE(notation.name);
    EXPECT_EQ(read(syntax_of(notation.sign), "Let me see.\n\n" + notation.two_calls + "\nThere."),
              message("Let me see.There.", two_calls()));
  }
}

TEST(MessageReader, LeavesCallsAloneWithoutTools) {
  for (const Notation& notation : notations()) {
    if (notation.sign == "<|channel|>") continue;
    EXPECT_EQ(read(syntax_without_tools(notation.sign), notation.two_calls), message(notation.two_calls));
  }
}

// Reads every beginning of a text with calls, as if max_tokens had ended it. Nothing is lost, and complete
// calls are calls.
TEST(MessageReader, TakesOnlyCompleteCallsOfATextThatIsCutOff) {
  for (const Notation& notation : notations()) {
    SCOPED_TRACE(notation.name);
    for (std::size_t size = 0; size < notation.two_calls.size(); ++size) {
      const Json cut = read(syntax_of(notation.sign), notation.two_calls.substr(0, size), Ending::cut);
      Json calls = cut.at("calls");
      if (!calls.empty() && calls.back().at(1).is_string()) calls.erase(calls.size() - 1);  // it is broken
      EXPECT_TRUE(calls.empty() || calls == one_call() || calls == two_calls()) << cut;
    }
  }
}

TEST(MessageReader, KeepsTextThatIsNotACall) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"<tool_call>", "<tool_call>\n{\"name\": \"unknown\", \"arguments\": {}}\n</tool_call>"},
      {"<tool_call>", "<tool_call>\n{\"name\": \"note\", \"arguments\": 3}\n</tool_call>"},
      {"<tool_call>", "<tool_call>\n{\"name\": \"note\", \"arguments\": [1]}\n</tool_call>"},
      {"<tool_call>", "<tool_call>\n{\"name\": \"note\", \"arguments\": {bad}}\n</tool_call>"},
      {"<tool_call>", "Write <tool_call> before a call, and </tool_call> after it.  "},
      {"<tool_call>", "<tool_call>note<arg_key>a</arg_value></tool_call> and more"},
      {"<tool_call>", "<tool_call>\n<function=other>\n</function>\n</tool_call>"},
      {"<tool_call>", "  \n"},
      {"[TOOL_CALLS]", "[TOOL_CALLS]other[ARGS]{}"},
      {"<|python_tag|>", "{\"name\": \"Bob\", \"age\": 7}"},
      {"<|python_tag|>", "[1, 2, 3]"},
      {"", "{\"hero\": \"Emma\", \"animal\": \"hen\"}"},
      {"", "```json\n{\"hero\": \"Emma\"}\n```\nand more"},
      {"[gMASK]", "note this:\n{}"},
      {"<|tool_list_start|>", "<|tool_call_start|>[other(a=1)]<|tool_call_end|>"},
      {"<|tool_list_start|>", "<|tool_call_start|>[note(1)]<|tool_call_end|>"},
      {"<|tool_list_start|>", "<|tool_call_start|>[note(a=)]<|tool_call_end|>"},
      {"<|tool_list_start|>", "<|tool_call_start|>[note(a=1]]<|tool_call_end|>"},
      {"<|tool_list_start|>", "<|tool_call_start|>note: write a=1"},
      {"<|tool_call>", "<|tool_call>call:note{a:}<tool_call|>"},
      {"<|tool_call>", "<|tool_call>call:other{a:1}<tool_call|>"},
      {"<｜tool▁call▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>other\n```json\n{}\n```"},
  };
  for (const auto& [sign, text] : cases) EXPECT_EQ(read(syntax_of(sign), text), message(text)) << text;
}

TEST(MessageReader, FindsACallAfterAMarkerWithoutACall) {
  const std::string call = "<tool_call>" + object_of("get_weather", kOsloJson) + "</tool_call>";
  EXPECT_EQ(read(syntax_of("<tool_call>"), "<tool_call><tool_call>" + call),
            message("<tool_call><tool_call>", one_call()));
  EXPECT_EQ(read(syntax_of("<tool_call>"), "<tool_call>\n{\"x\": 1} " + call),
            message("<tool_call>\n{\"x\": 1}", one_call()));
}

TEST(MessageReader, TakesArgumentsThatAreATextOfJson) {
  EXPECT_EQ(read(syntax_of("<tool_call>"),
                 "<tool_call>" + object_of("get_weather", Json(kOsloJson).dump()) + "</tool_call>"),
            message("", one_call()));
}

TEST(MessageReader, ReadsGlm4sCallAsTheWholeAnswer) {
  EXPECT_EQ(read(syntax_of("[gMASK]"), "get_weather\n" + kOsloJson), message("", one_call()));
}

// A text parameter stays a text, even if it looks like something else.
TEST(MessageReader, ConvertsTaggedArgumentsByTheirSchema) {
  EXPECT_EQ(
      read(syntax_of("<tool_call>"),
           "<tool_call>get_weather<arg_key>city</arg_key><arg_value>7</arg_value><arg_key>days</arg_key>"
           "<arg_value>7</arg_value><arg_key>x</arg_key><arg_value>a \"b\"\n</arg_value></tool_call>"),
      message("", only("get_weather", {{"city", "7"}, {"days", 7}, {"x", "a \"b\"\n"}})));
}

TEST(MessageReader, DividesThinkingFromTheAnswer) {
  const std::string call = "<tool_call>" + object_of("get_weather", kOsloJson) + "</tool_call>";
  AnswerSyntax syntax = syntax_of("<think> </think> <tool_call>");
  EXPECT_EQ(read(syntax, "<think>\nHm, <b>.\n</think>\n\nYes. "),
            message("Yes. ", Json::array(), "Hm, <b>."));
  EXPECT_EQ(read(syntax, "\n<think>a</think>" + call), message("", one_call(), "a"));
  EXPECT_EQ(read(syntax, "<think>" + call + "</think>b"), message("b", Json::array(), call));
  EXPECT_EQ(read(syntax, "<think>a"), message("", Json::array(), "a"));
  EXPECT_EQ(read(syntax, "<think></think>"), message(""));
  EXPECT_EQ(read(syntax, "No thought. <think> is a word"), message("No thought. <think> is a word"));
  EXPECT_EQ(read(syntax, "<thin air"), message("<thin air"));
  syntax.begins_thinking = true;
  EXPECT_EQ(read(syntax, "\nHm.\n</think>\n\nYes"), message("Yes", Json::array(), "Hm."));
  EXPECT_EQ(read(syntax, "<think>\nHm.</think>Yes"), message("Yes", Json::array(), "Hm."));
  syntax = syntax_without_tools("[THINK][/THINK][TOOL_CALLS]");
  EXPECT_EQ(read(syntax, "[THINK]Hm[/THINK]Yes"), message("Yes", Json::array(), "Hm"));
  syntax = syntax_of("<|channel>thought <channel|> <|tool_call>");
  EXPECT_EQ(read(syntax, "<|channel>thought\nHm\n<channel|>Yes"), message("Yes", Json::array(), "Hm"));
}

TEST(MessageReader, APromptMayBeginThinking) {
  const ThinkingMarkers qwen = syntax_of("<think> </think>").syntax.thinking;
  EXPECT_TRUE(qwen.are_begun_by("<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(qwen.are_begun_by("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(qwen.are_begun_by("<|im_start|>assistant\n"));
  const ThinkingMarkers seed = syntax_of("<seed:think> </seed:think>").syntax.thinking;
  EXPECT_TRUE(seed.are_begun_by("<seed:bos>assistant\n<seed:think><seed:cot_budget_reflect>"));
  EXPECT_FALSE(ThinkingMarkers().are_begun_by("<think>"));
}

TEST(MessageReader, ReadsChannels) {
  const AnswerSyntax syntax = syntax_of("<|channel|>");
  EXPECT_EQ(read(syntax,
                 "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|"
                 "return|>"),
            message("Yes.", Json::array(), "Hm."));
  EXPECT_EQ(read(syntax, "<|channel|>analysis<|message|>Hm"), message("", Json::array(), "Hm"));
  EXPECT_EQ(read(syntax,
                 "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
                 "to=functions.get_weather <|constrain|>json<|message|>" +
                     kOsloJson),
            message("", one_call(), "Hm."));
  EXPECT_EQ(
      read(syntax,
           "<|channel|>commentary<|message|>First I look.<|end|><|start|>assistant<|channel|>commentary "
           "to=functions.other<|message|>{}<|call|>"),
      message("First I look.{}"));
  EXPECT_EQ(read(syntax, "No channels here"), message("No channels here"));
  EXPECT_EQ(read(syntax, "<|channel|>commentary to=functions.note<|message|>{bad}<|call|>"),
            message("<|channel|>commentary to=functions.note<|message|>{bad}"));
  EXPECT_EQ(read(syntax_without_tools("<|channel|>"), "<|channel|>final<|message|>Yes<|return|>"),
            message("Yes"));
}

// Arguments are streamed as they arrive, beginning with the first value.
TEST(MessageReader, StreamsArgumentsByteByByte) {
  const auto reader = make_message_reader(syntax_of("<tool_call>"));
  EXPECT_EQ(said(reader->push("A <tool_c")), (Said{{Kind::text, "A"}}));
  EXPECT_EQ(said(reader->push("all>{\"name\": \"no")), Said{});
  EXPECT_EQ(said_of(*reader, "te\", \"arguments\": {\"a\": "), Said{});
  EXPECT_EQ(said_of(*reader, "\""), (Said{{Kind::call, "note"}, {Kind::arguments, "{\"a\": \""}}));
  EXPECT_EQ(said(reader->push("b")), (Said{{Kind::arguments, "b"}}));
  EXPECT_EQ(said(reader->push("\"}")), (Said{{Kind::arguments, "\"}"}}));
  EXPECT_EQ(said(reader->push("}</tool_call>")), (Said{{Kind::call_end, ""}}));
  EXPECT_EQ(said(reader->finish(Ending::complete)), Said{});
}

// A stream can't retract a call that it has passed on, so it stays a call, with the model's text.
TEST(MessageReader, ACallThatBreaksAfterItsFirstValueStaysACall) {
  const auto reader = make_message_reader(syntax_of("<tool_call>"));
  EXPECT_EQ(said(reader->push("<tool_call>{\"name\": \"note\", \"arguments\": {\"a\": 1")),
            (Said{{Kind::call, "note"}, {Kind::arguments, "{\"a\": 1"}}));
  EXPECT_EQ(said(reader->push(" x!")), (Said{{Kind::arguments, " x!"}}));
  EXPECT_EQ(said(reader->push("}}</tool_call> There.")),
            (Said{{Kind::arguments, "}}"}, {Kind::call_break, ""}, {Kind::text, "There."}}));
  const std::pair<std::string, std::string> cases[] = {
      {"<tool_call>\n{\"name\": \"note\", \"arguments\": {\"a\": 1", "{\"a\": 1"},
      {"<tool_call>\n{\"name\": \"note\", \"arguments\": {\"a\": tru}}\n</tool_call>", "{\"a\": tru}}\n"},
      {"<|channel|>commentary to=functions.note<|message|>{\"a\": bad}<|call|>", "{\"a\": bad}"},
      {"[TOOL_CALLS]note[ARGS]{\"a\": 1, b}", "{\"a\": 1, b}"}};
  for (const auto& [text, arguments] : cases) {
    const char* const sign = text.front() == '[' ? "[TOOL_CALLS]"
                             : text[1] == '|'    ? "<|channel|>"
                                                 : "<tool_call>";
    EXPECT_EQ(read(syntax_of(sign), text), message("", only("note", arguments)));
  }
}

TEST(MessageReader, EndsAfterTheFirstCallIfThereIsToBeOne) {
  for (const Notation& notation : notations()) {
    AnswerSyntax syntax = syntax_of(notation.sign);
    syntax.has_one_call = true;
    EXPECT_EQ(read(syntax, notation.two_calls), message("", one_call())) << notation.name;
  }
}

void expect_same_byte_by_byte(const AnswerSyntax& syntax, const std::string& text) {
  const Json whole = shown(read_message(syntax, text));
  const auto one = [] { return std::size_t{1}; };
  EXPECT_EQ(shown(read_in_pieces(syntax, text, one, Ending::complete)), whole) << text.substr(0, 200);
}

// No text takes more than linear time or breaks the reader, and no part is lost or invented.
TEST(MessageReader, SurvivesHostileText) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\": ";
  const std::string call = "<tool_call>{\"name\": \"note\", \"arguments\": ";
  EXPECT_EQ(shown(read_message(syntax_of("<tool_call>"), call + deep)), message("", only("note", deep)));
  std::string markers;
  for (int i = 0; i < 100'000; ++i) markers += "<tool_call>";
  EXPECT_EQ(shown(read_message(syntax_of("<tool_call>"), markers)), message(markers));
  // The value's end is certain only at the end of the answer. Markers are then read again.
  const std::string complete = "<tool_call><function=note><parameter=a>1</parameter></function></tool_call>";
  EXPECT_EQ(shown(read_message(syntax_of("<tool_call>"), complete + " x" + markers)),
            message("x" + markers, only("note", {{"a", 1}})));
  expect_same_byte_by_byte(syntax_of("<tool_call>"), complete + " x" + markers.substr(0, 20'000) + complete);
  std::string arguments = "<|tool_call_start|>[note(";
  for (int i = 0; i < 4000; ++i) arguments += "a" + std::to_string(i) + "=1, ";
  arguments += "b=2)]<|tool_call_end|>";
  EXPECT_EQ(shown(read_message(syntax_of("<|tool_list_start|>"), arguments)), message(arguments));
  std::string names;
  for (int i = 0; i < 50'000; ++i) names += "<tool_call>note<arg_key>";
  EXPECT_EQ(shown(read_message(syntax_of("<tool_call>"), names)), message(names));
  for (const std::string part : {"</parameter>", "</function>\n", "</parameter>  </function>", "<parameter=a",
                                 "</parameter></function></tool_call>", "<tool_call><function=", "<", "\n"}) {
    std::string value = "<tool_call><function=note><parameter=a>";
    for (int i = 0; i < 4000; ++i) value += part;
    expect_same_byte_by_byte(syntax_of("<tool_call>"), value);
    std::string heads;
    for (int i = 0; i < 2000; ++i) heads += "<function=note>" + part;
    expect_same_byte_by_byte(syntax_of("<tool_call>"), heads);
  }
  const std::string huge(3'000'000, 'x');
  EXPECT_EQ(shown(read_message(syntax_of("<tool_call>"),
                               "<tool_call>{\"name\": \"note\", \"arguments\": {\"a\": \"" + huge + "\"}}")),
            message("", only("note", {{"a", huge}})));
  std::string brackets = "<|tool_call>call:note{a:";
  for (int i = 0; i < 100'000; ++i) brackets += "[";
  EXPECT_EQ(shown(read_message(syntax_of("<|tool_call>"), brackets)), message(brackets));
}

// Random texts made of the notations' own words.
TEST(MessageReader, ReadsAnyTextTheSameInAnyPieces) {
  const std::vector<std::string> words = {"<tool_call>",
                                          "</tool_call>",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          "\"name\"",
                                          ":",
                                          "\"note\"",
                                          ",",
                                          "\"arguments\"",
                                          " ",
                                          "\n",
                                          "\"a\"",
                                          "1",
                                          "note",
                                          "<arg_key>",
                                          "</arg_key>",
                                          "<arg_value>",
                                          "</arg_value>",
                                          "<think>",
                                          "</think>",
                                          "<function=",
                                          "<function=note>",
                                          "<parameter=a>",
                                          "</parameter>",
                                          "</function>",
                                          "<invoke name=\"note\">",
                                          "<parameter name=\"a\">",
                                          "</invoke>",
                                          "<minimax:tool_call>",
                                          "</minimax:tool_call>",
                                          "<|tools_prefix|>",
                                          "{\"note\":",
                                          "<|inner_suffix|>",
                                          "\\",
                                          "None",
                                          "[TOOL_CALLS]",
                                          "[ARGS]",
                                          "<|channel|>",
                                          "<|message|>",
                                          "<|end|>",
                                          "to=functions.note",
                                          "analysis",
                                          "call:note{",
                                          "<|tool_call>",
                                          "<tool_call|>",
                                          "<|\"|>",
                                          "```json",
                                          "```",
                                          "word",
                                          "<",
                                          "é",
                                          "<｜tool▁call▁begin｜>",
                                          "<｜tool▁sep｜>",
                                          R"({"name": "note", "arguments": {"a": 1}})"};
  std::mt19937 random(11);
  for (int i = 0; i < 4000; ++i) {
    const Notation& notation = notations()[random() % notations().size()];
    std::string text;
    for (std::size_t size = random() % 14; size > 0; --size) text += words[random() % words.size()];
    AnswerSyntax syntax = syntax_of(notation.sign + (random() % 2 == 0 ? "</think>" : ""));
    syntax.begins_thinking = !syntax.syntax.thinking.empty() && random() % 2 == 0;
    SCOPED_TRACE(notation.name + ": " + text);
    read(syntax, text);
  }
}

}  // namespace
}  // namespace tp::test
