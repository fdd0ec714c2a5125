// Calls with mistakes that models make: the intended calls are read, from whole and streamed answers alike.
#include "tests/runtime/chat/read_messages.h"

namespace tp::test {
namespace {

const Json kTools = Json::parse(R"([
  {"type": "function", "function": {"name": "get_time"}},
  {"type": "function", "function": {"name": "note", "parameters": {"type": "object",
    "properties": {"text": {"type": "string"}}}}},
  {"type": "function", "function": {"name": "order", "parameters": {"type": "object", "properties": {
    "zip": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "phone": {"type": ["string", "null"]},
    "code": {"enum": ["10115", "all"]}, "const": {"const": "7"}, "name": {"$ref": "#/$defs/Name"},
    "note": {"type": "string", "nullable": true}, "one": {"oneOf": [{"type": "string", "maxLength": 5}]},
    "all": {"allOf": [{"type": "string"}, {"minLength": 1}]}, "hint": {"minLength": 1},
    "express": {"type": "boolean"}, "count": {"type": "integer"}, "any": {}, "either": {"type": ["string", "integer"]},
    "tags": {"anyOf": [{"type": "array"}, {"type": "null"}]}, "size": {"type": "object"}},
    "$defs": {"Name": {"type": "string"}}}}},
  {"type": "function", "function": {"name": "send", "parameters": {"type": "object",
    "properties": {"to": {"type": "string"}, "text": {"type": "string"}}, "required": ["to", "text"]}}}])");

Json read(const std::string& sign, const std::string& text, Ending ending = Ending::complete) {
  return test::read(test::syntax_of(sign, kTools), text, ending);
}

TEST(CallFaults, ACallMayHaveNoArguments) {
  const std::pair<std::string, std::string> cases[] = {
      {"<tool_call>", "<tool_call>{\"name\": \"get_time\"}</tool_call>"},
      {"<tool_call>", "<tool_call>\n{\"name\": \"get_time\", \"arguments\": null}\n</tool_call>"},
      {"<tool_call>", "<tool_call>{\"arguments\": null, \"name\": \"get_time\"}</tool_call>"},
      {"<tool_call>", "<tool_call>{\"name\": \"get_time\", \"arguments\": \"\"}</tool_call>"},
      {"<tool_call>", "<tool_call>{\"name\": \"get_time\", \"arguments\": \" \\n\"}</tool_call>"},
      {"<tool_call>", "<tool_call>{\"name\": \"get_time\", \"arguments\": None}</tool_call>"},
      {"<tool_call>",
       "<tool_call>{\"function\": {\"name\": \"get_time\", \"arguments\": null}, \"id\": \"1\"}</tool_call>"},
      {"<tool_call>", "<tool_call>{\"name\": \"get_time\"</tool_call>"},
      {"<tool_call>", "<tool_call>\n<function=get_time>\n</function>\n</tool_call>"},
      {"<tool_call>", "<tool_call>get_time</tool_call>"},
      {"<tool_call>", "<tool_call>get_time\n</tool_call>"},
      {"<seed:tool_call>", "<seed:tool_call><function=get_time></function></seed:tool_call>"},
      {"<minimax:tool_call>",
       "<minimax:tool_call>\n<invoke name=\"get_time\">\n</invoke>\n</minimax:tool_call>"},
      {"<|python_tag|>", "{\"name\": \"get_time\"}"},
      {"<|python_tag|>", "<|python_tag|>{\"name\": \"get_time\", \"parameters\": null}"},
      {"[TOOL_CALLS]", "[TOOL_CALLS][{\"name\": \"get_time\", \"arguments\": \"\"}]"},
      {"[TOOL_CALLS]", "[TOOL_CALLS]get_time[ARGS]"},
      {"<｜tool▁call▁begin｜>", "<｜tool▁call▁begin｜>get_time<｜tool▁sep｜><｜tool▁call▁end｜>"},
      {"<｜tool▁call▁begin｜>",
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n```json\n\n```<｜tool▁call▁end｜>"},
      {"<|tool_calls_section_begin|>",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_time:0<|tool_call_argument_begin|>null"
       "<|tool_call_end|><|tool_calls_section_end|>"},
      {"<|tool_call|>", "<|tool_call|>[{\"name\": \"get_time\"}]"},
      {"<|tool_call>", "<|tool_call>call:get_time{}<tool_call|>"},
      {"<|START_ACTION|>",
       "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"get_time\"}]<|END_ACTION|>"},
      {"<|tools_prefix|>", "<|tools_prefix|>[{\"get_time\": null}]<|tools_suffix|>"},
      {"<|channel|>", "<|channel|>commentary to=functions.get_time <|constrain|>json<|message|><|call|>"},
      {"<|channel|>", "<|channel|>commentary to=functions.get_time<|message|>"},
      {"<|channel|>", "<|channel|>commentary to=functions.get_time<|message|>\"\"<|call|>"},
      {"", "{\"name\": \"get_time\", \"arguments\": null}"}};
  for (const auto& [sign, text] : cases)
    EXPECT_EQ(read(sign, text), message("", only("get_time", Json::object()))) << text;
  EXPECT_EQ(read("[TOOL_CALLS]", "[TOOL_CALLS]get_time[ARGS][TOOL_CALLS]note[ARGS]{\"text\": \"a\"}"),
            message("", Json::parse(R"([["get_time", {}], ["note", {"text": "a"}]])")));
}

// A code block does not end a call, even for a model that was told to call in JSON.
TEST(CallFaults, ArgumentsMayBeInABlockOfCode) {
  AnswerSyntax syntax = syntax_of("<｜tool▁call▁begin｜>", kTools);
  syntax.syntax.calls = also_as_json(syntax.syntax.calls);
  EXPECT_EQ(
      test::read(syntax, "<｜tool▁call▁begin｜>function<｜tool▁sep｜>note\n```json\n{\"text\": \"a\"}\n```"),
      message("", only("note", {{"text", "a"}})));
}

TEST(CallFaults, OtherMembersAreIgnored) {
  for (const char* call :
       {R"({"name": "note", "text": "a"})", R"({"name": "note", "arguments": 3})",
        R"({"name": "note", "arguments": "a"})", R"({"name": "note", "arguments": [1]})"}) {
    const std::string text = "<tool_call>" + std::string(call) + "</tool_call>";
    EXPECT_EQ(read("<tool_call>", text), message(text));
  }
}

TEST(CallFaults, StringsMayHaveRawControlCharactersAndLoneBackslashes) {
  const std::string raw = "a\n\tb\r\x01 \\d+ C:\\new \\' \\\ne \\u12 \\u00e9 \\\\n";
  const std::string meant = "a\n\tb\r\x01 \\d+ C:\new ' \\\ne \\u12 é \\n";
  const std::string object = "{\"text\": \"" + raw + "\"}";
  const std::string json = "{\"name\": \"note\", \"arguments\": " + object + "}";
  const std::pair<std::string, std::string> cases[] = {
      {"<tool_call>", "<tool_call>\n" + json + "\n</tool_call>"},
      {"<|python_tag|>", json},
      {"", "```json\n" + json + "\n```"},
      {"<|tool_call|>", "<|tool_call|>[" + json + "]"},
      {"[TOOL_CALLS]", "[TOOL_CALLS]note[ARGS]" + object},
      {"<｜tool▁call▁begin｜>", "<｜tool▁call▁begin｜>note<｜tool▁sep｜>" + object + "<｜tool▁call▁end｜>"},
      {"<|tool_calls_section_begin|>",
       "<|tool_call_begin|>functions.note:0<|tool_call_argument_begin|>" + object + "<|tool_call_end|>"},
      {"[gMASK]", "note\n" + object},
      {"<|START_ACTION|>", "<|START_ACTION|>[{\"tool_name\": \"note\", \"parameters\": " + object + "}]"},
      {"<|tools_prefix|>", "<|tools_prefix|>[{\"note\": " + object + "}]<|tools_suffix|>"},
      {"<|channel|>", "<|channel|>commentary to=functions.note<|message|>" + object + "<|call|>"}};
  for (const auto& [sign, text] : cases)
    EXPECT_EQ(read(sign, text), message("", only("note", {{"text", meant}}))) << text;
  EXPECT_EQ(
      read("<tool_call>", "<tool_call>{\"name\": \"note\", \"arguments\": \"{\\\"text\\\": \\\"a\nb\\\"}\"}"),
      message("", only("note", {{"text", "a\nb"}})));
}

TEST(CallFaults, PythonsWordsAndQuotesAreRead) {
  const Json meant = Json::parse(R"({"express": true, "tags": [false, null]})");
  EXPECT_EQ(read("<tool_call>",
                 "<tool_call>{\"name\": \"order\", \"arguments\": {\"express\": True, \"tags\": [False, "
                 "None]}}</tool_call>"),
            message("", only("order", meant)));
  EXPECT_EQ(read("<tool_call>",
                 "<tool_call>{'name': 'order', 'arguments': {'express': True, 'tags': [False, None]}}"),
            message("", only("order", meant)));
  EXPECT_EQ(read("<|tool_call>", "<|tool_call>call:order{express:True,tags:[False,None]}<tool_call|>"),
            message("", only("order", meant)));
}

// A call in each notation with tags.
struct Tags {
  std::string sign, begin, head, head_end, key, key_end, value_end, tail, end;

  std::string parameter(const std::string& name, const std::string& value) const {
    return key + name + key_end + value + value_end;
  }
  std::string body(const std::string& name, const std::string& parameters) const {
    return head + name + head_end + parameters + tail;
  }
  std::string call(const std::string& name, const std::string& parameters) const {
    return begin + body(name, parameters) + end;
  }
};

const std::vector<Tags>& tag_notations() {
  static const std::vector<Tags> kNotations = {
      {"<tool_call>", "<tool_call>\n", "<function=", ">\n", "<parameter=", ">\n", "\n</parameter>\n",
       "</function>\n", "</tool_call>"},
      {"<tool_call>", "<tool_call>", "", "\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", "",
       "</tool_call>"},
      {"<seed:tool_call>", "<seed:tool_call>\n", "<function=", ">\n", "<parameter=", ">", "</parameter>\n",
       "</function>\n", "</seed:tool_call>"},
      {"<minimax:tool_call>", "<minimax:tool_call>\n", "<invoke name=\"", "\">\n", "<parameter name=\"",
       "\">", "</parameter>\n", "</invoke>\n", "</minimax:tool_call>"}};
  return kNotations;
}

TEST(CallFaults, ValuesInTagsHaveTheSchemasTypes) {
  const Json cases = Json::parse(R"([
    ["zip", "10115", "10115"], ["zip", "null", null], ["zip", "None", null], ["zip", "true", "true"],
    ["phone", "0301234", "0301234"], ["phone", "12", "12"], ["code", "10115", "10115"], ["const", "7", "7"],
    ["name", "42", "42"], ["name", "null", "null"], ["note", "1.5", "1.5"], ["note", "null", null], ["one", "12", "12"],
    ["all", "[1]", "[1]"], ["hint", "{}", "{}"], ["express", "True", true], ["express", "false", false],
    ["express", "maybe", "maybe"], ["count", "12", 12], ["count", "many", "many"], ["any", "12", 12], ["any", "a b", "a b"],
    ["any", "True", true], ["either", "12", 12], ["either", "a", "a"], ["tags", "[1, \"a\", True]", [1, "a", true]],
    ["tags", "None", null], ["tags", "['a', 'b\"c', 'it\\'s', None]", ["a", "b\"c", "it's", null]], ["size", "{\"a\": \"b\nc\"}", {"a": "b\nc"}], ["other", "12", 12]])");
  for (const Tags& tags : tag_notations()) {
    for (const Json& one : cases) {
      const std::string call = tags.call("order", tags.parameter(one.at(0), one.at(1)));
      EXPECT_EQ(read(tags.sign, call), message("", only("order", {{one.at(0), one.at(2)}}))) << call;
    }
    // All digits of a number are kept.
    const auto reader = make_message_reader(syntax_of(tags.sign, kTools));
    MessagePieces pieces =
        reader->push(tags.call("order", tags.parameter("count", "123456789012345678901234567890")));
    for (MessagePiece& piece : reader->finish(Ending::complete)) pieces.push_back(std::move(piece));
    EXPECT_EQ(pieces.at(1).text, "{\"count\": 123456789012345678901234567890}");
  }
}

TEST(CallFaults, TagsInValuesAreOfTheValue) {
  for (const Tags& tags : tag_notations()) {
    const std::string close = std::string(tags.value_end).erase(0, tags.value_end.front() == '\n' ? 1 : 0);
    for (const std::string& text : std::vector<std::string>{
             "see " + close + "there", "see " + tags.end + " there", "see " + tags.tail + "there",
             "see " + tags.tail + tags.end + " there", "a " + close + tags.tail + tags.end + " b",
             "a " + tags.begin + " b", "if a < b </ c", tags.key + "unknown" + tags.key_end + "x",
             "see " + tags.end}) {
      SCOPED_TRACE(text);
      const std::string call = tags.call("note", tags.parameter("text", text));
      EXPECT_EQ(read(tags.sign, call), message("", only("note", {{"text", text}})));
      EXPECT_EQ(read(tags.sign, call + "\n" + tags.call("get_time", "")),
                message("", Json::array({Json::array({"note", {{"text", text}}}),
                                         Json::array({"get_time", Json::object()})})));
    }
    EXPECT_EQ(read(tags.sign, "A " + tags.call("note", tags.parameter("text", "b")) + " c"),
              message("Ac", only("note", {{"text", "b"}})));
  }
}

TEST(CallFaults, MarksThatAreMissingAreMeant) {
  for (const Tags& tags : tag_notations()) {
    SCOPED_TRACE(tags.sign + tags.key);
    const Json send = Json::array({"send", {{"to", "Ann"}, {"text", "Hi"}}});
    const Json time = Json::array({"get_time", Json::object()});
    const std::string ann = tags.parameter("to", "Ann");
    const std::string hi = tags.parameter("text", "Hi");
    const std::string open_ann = tags.key + "to" + tags.key_end + "Ann\n";
    const std::string open_hi = tags.key + "text" + tags.key_end + "Hi\n";
    const std::string head = tags.head + "send" + tags.head_end;
    const std::string more = tags.call("get_time", "");
    const std::string parts[] = {tags.begin + head + ann + hi,
                                 tags.begin + head + ann + hi + tags.tail,
                                 tags.begin + head + ann + hi + tags.end,
                                 head + ann + hi + tags.tail + tags.end,
                                 tags.begin + head + open_ann + hi + tags.tail + tags.end,
                                 tags.begin + head + ann + open_hi + tags.tail + tags.end,
                                 tags.begin + head + open_ann + open_hi + tags.tail + tags.end};
    for (const std::string& text : parts) {
      EXPECT_EQ(read(tags.sign, text), message("", Json::array({send}))) << text;
      EXPECT_EQ(read(tags.sign, text + "\n" + more), message("", Json::array({send, time}))) << text;
      EXPECT_EQ(read(tags.sign, more + "\n" + text), message("", Json::array({time, send}))) << text;
    }
    // The beginning of a call by itself is not a call.
    for (const std::string& text :
         {tags.begin + head + ann, tags.begin + head + ann + open_hi, tags.begin + head})
      EXPECT_EQ(read(tags.sign, text), message(text)) << text;
    EXPECT_EQ(read(tags.sign, parts[0], Ending::cut), message(parts[0]));
  }
  EXPECT_EQ(read("<tool_call>",
                 "<tool_call>send<arg_key>to</arg_key>Ann</arg_value><arg_key>text</arg_key><arg_value>Hi"
                 "</arg_value></tool_call>"),
            message("", only("send", {{"to", "Ann"}, {"text", "Hi"}})));
}

TEST(CallFaults, BracketsAndMarkersThatAreMissingAreMeant) {
  const std::string object = R"({"name": "note", "arguments": {"text": "a"})";
  const Json note = only("note", {{"text", "a"}});
  EXPECT_EQ(read("<tool_call>", "<tool_call>" + object), message("", note));
  EXPECT_EQ(read("<tool_call>", "<tool_call>" + object + "</tool_call>"), message("", note));
  EXPECT_EQ(read("<tool_call>", object + "}\n</tool_call>"), message("", note));
  EXPECT_EQ(read("[TOOL_CALLS]", "[TOOL_CALLS][" + object + "}"), message("", note));
  EXPECT_EQ(read("<|START_ACTION|>", "<|START_ACTION|>[" + object + "}<|END_ACTION|>"), message("", note));
  EXPECT_EQ(read("<|tool_call>", "<|tool_call>call:note{text:<|\"|>a<tool_call|>b<|\"|>}"),
            message("", only("note", {{"text", "a<tool_call|>b"}})));
}

TEST(CallFaults, ThinkingAndTextOfCohereSeedAndApertusAreDivided) {
  const std::string cohere = "<|START_THINKING|><|END_THINKING|><|START_ACTION|><|START_RESPONSE|>";
  EXPECT_EQ(read(cohere, "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>"),
            message("Yes.", Json::array(), "Hm."));
  EXPECT_EQ(test::read(syntax_of(cohere, nullptr), "<|START_RESPONSE|>Yes.<|END_RESPONSE|>"),
            message("Yes."));
  EXPECT_EQ(read(cohere,
                 "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
                 "\"tool_name\": \"note\", \"parameters\": {\"text\": \"a\"}}\n]<|END_ACTION|>"),
            message("", only("note", {{"text", "a"}}), "Hm."));
  const std::string apertus = "<|inner_prefix|><|inner_suffix|><|tools_prefix|><|tools_suffix|>";
  EXPECT_EQ(read(apertus, "<|inner_prefix|>Hm.<|inner_suffix|>Yes."), message("Yes.", Json::array(), "Hm."));
  EXPECT_EQ(
      read(apertus, "<|inner_prefix|>Hm.<|tools_prefix|>[{\"note\": {\"text\": \"a\"}}]<|tools_suffix|>"),
      message("", only("note", {{"text", "a"}}), "Hm."));
  EXPECT_EQ(
      read("<seed:think></seed:think><seed:tool_call>",
           "<seed:think>Hm.</seed:think>\n<seed:tool_call>\n<function=note>\n<parameter=text>a</parameter>\n"
           "</function>\n</seed:tool_call>"),
      message("", only("note", {{"text", "a"}}), "Hm."));
}

}  // namespace
}  // namespace tp::test
