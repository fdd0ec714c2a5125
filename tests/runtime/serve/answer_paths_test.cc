// Whole and streamed answers of the APIs contain the same message for any output of the model.
#include "runtime/api/answer_format.h"
#include "tests/runtime/chat/read_messages.h"

namespace tp::test {
namespace {

using Blocks = Json;

const Json kTools = Json::parse(R"([
  {"type": "function", "function": {"name": "get_time"}},
  {"type": "function", "function": {"name": "note", "parameters": {"type": "object", "properties":
    {"text": {"type": "string"}, "loud": {"type": "boolean"}}}}}])");

struct Faults {
  std::string sign;                   // sign of a template's notation
  std::string before, middle, after;  // texts around a tool's name and its arguments, which are JSON
};

const std::vector<Faults>& notations() {
  const std::string name = R"({"name": ")";
  const std::string arguments = R"(", "arguments": )";
  static const std::vector<Faults> kNotations = {
      {"<tool_call>", "<tool_call>\n" + name, arguments, "}\n</tool_call>\n"},
      {"<|python_tag|>", name, R"(", "parameters": )", "}; "},
      {"<|python_tag|>", "<|python_tag|>" + name, arguments, "}"},
      {"[TOOL_CALLS]", "[TOOL_CALLS] [" + name, arguments, "}]"},
      {"[TOOL_CALLS]", "[TOOL_CALLS]", "[ARGS]", ""},
      {"<｜tool▁call▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n",
       "\n```<｜tool▁call▁end｜>"},
      {"<｜tool▁call▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"},
      {"<|start_of_role|>", "<|tool_call|>[" + name, arguments, "}]"},
      {"<|tool_call|>", R"(<|tool_call|>[{"type": "function", "function": {"name": ")", arguments,
       "}}]<|/tool_call|>"},
      {"<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.", ":0<|tool_call_argument_begin|>",
       "<|tool_call_end|>"},
      {"<|channel|>", "<|start|>assistant<|channel|>commentary to=functions.", "<|message|>", "<|call|>"},
      {"<|START_ACTION|>", R"(<|START_ACTION|>[{"tool_call_id": "0", "tool_name": ")", R"(", "parameters": )",
       "}]<|END_ACTION|>"},
      {"<|tools_prefix|>", R"(<|tools_prefix|>[{")", R"(": )", "}]<|tools_suffix|>"},
      {"", "```json\n" + name, arguments, "}\n```\n"},
      {"", name, arguments, "}"}};
  return kNotations;
}

// Returns texts in a notation, with the faults of cases S8 to S10, complete and cut off.
std::vector<std::string> texts_of(const Faults& notation) {
  std::vector<std::string> texts;
  for (const char* arguments :
       {"", "null", "\"\"", "{}", "{\"text\": \"a\nb\tc\"}", "{\"text\": \"\\d\", \"loud\": True}",
        "{\"text\": \"a", "{\"text\": \"a\", b}", "{\"text\": 1 2", "3", "{\"text\": \"</tool_call>\"}",
        "{\"text\": \"a\"", "\"{\\\"text\\\": \\\"a\nb\\\"}\""}) {
    const std::string call =
        notation.before + (arguments[0] == '{' ? "note" : "get_time") + notation.middle + arguments;
    texts.push_back(call + notation.after);
    texts.push_back(call);
    texts.push_back("Let me see.\n" + call + notation.after + call + notation.after + "There.");
  }
  return texts;
}

const std::vector<std::string>& texts_in_tags() {
  static const std::vector<std::string> kTexts = {
      "A <tool_call>\n<function=note>\n<parameter=text>\na </parameter> "
      "b\n</parameter>\n</function>\n</tool_call> c",
      "<function=note><parameter=text>10<parameter=loud>True</function>",
      "<tool_call>note<arg_key>text</arg_key><arg_value>a</tool_call><tool_call>get_time</tool_call>",
      "<tool_call>note<arg_key>text</arg_key><arg_value>a", "<tool_call>\n<function=get_time>"};
  return kTexts;
}

Answer answer_of(const AnswerSyntax& syntax) {
  Answer answer;
  answer.id = "id_1";
  answer.completions.resize(1);
  answer.completions[0].syntax = syntax;
  answer.completions[0].continuations.resize(1);
  return answer;
}

// Splits a text into tokens of `size` bytes or more, followed by a token that ends it.
std::vector<TokenEvent> events_of(const std::string& text, std::size_t size, FinishReason reason) {
  std::vector<TokenEvent> events;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    end = std::min(at + size, text.size());
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
      ++end;  // a token ends at the end of a character
    TokenEvent& event = events.emplace_back();
    event.text = text.substr(at, end - at);
  }
  events.emplace_back().finish_reason = reason;
  return events;
}

std::vector<Json> data_of(const std::string& events) {
  std::vector<Json> data;
  for (std::size_t at = 0; (at = events.find("data: ", at)) != std::string::npos; ++at)
    data.push_back(Json::parse(events.substr(at + 6, events.find('\n', at) - at - 6)));
  return data;
}

// Assembles the content from the events of /v1/messages, as Anthropic's clients do.
Blocks content_of(const std::vector<Json>& events) {
  Blocks content = Json::array();
  std::string arguments;
  for (const Json& event : events) {
    const std::string type = event.at("type");
    if (type == "content_block_start") {
      EXPECT_EQ(event.at("index"), content.size());
      content.push_back(event.at("content_block"));
      arguments.clear();
    } else if (type == "content_block_delta") {
      for (const char* name : {"text", "thinking"}) {
        if (event.at("delta").contains(name))
          content.back()[name] = content.back()[name].get<std::string>() + event.at("delta").value(name, "");
      }
      arguments += event.at("delta").value("partial_json", "");
    } else if (type == "content_block_stop" && content.back().at("type") == "tool_use") {
      const Json input = Json::parse(arguments, nullptr, false);
      content.back()["input"] = input.is_object() ? input : Json{{"INVALID_JSON", arguments}};
    }
  }
  return content;
}

std::string stream(AnswerFormat& format, Answer& answer, const std::vector<TokenEvent>& tokens) {
  std::string events = format.begin(answer);
  for (const TokenEvent& token : tokens) {
    answer.completions[0].add(token);
    events += format.token(answer, 0, token);
  }
  return events + format.end(answer);
}

// Removes the ids, because they are random.
void remove_ids(Json& json) {
  if (json.is_object()) {
    json.erase("id");
    json.erase("call_id");
  }
  if (!json.is_structured()) return;
  for (Json& part : json) remove_ids(part);
}

// Returns the answers of both APIs. Checks that each API's events contain the same answer.
Json checked_answer(const AnswerSyntax& syntax, const std::string& text, std::size_t size,
                    FinishReason reason) {
  SCOPED_TRACE(text + " in tokens of " + std::to_string(size));
  const std::vector<TokenEvent> tokens = events_of(text, size, reason);
  const auto messages = make_messages_format();
  Answer answer = answer_of(syntax);
  const std::vector<Json> events = data_of(stream(*messages, answer, tokens));
  const Json body = messages->body(answer);
  EXPECT_EQ(content_of(events), body.at("content"));
  EXPECT_EQ(events.at(events.size() - 2).at("delta").at("stop_reason"), body.at("stop_reason"));
  const auto responses = make_responses_format();
  answer = answer_of(syntax);
  const std::vector<Json> last = data_of(stream(*responses, answer, tokens));
  const Json output = responses->body(answer).at("output");
  EXPECT_EQ(last.back().at("response").at("output"), output);
  Json both = {{"content", body.at("content")}, {"stop_reason", body.at("stop_reason")}, {"output", output}};
  remove_ids(both);
  return both;
}

void expect_same_answers(const AnswerSyntax& syntax, const std::string& text) {
  for (const FinishReason reason : {FinishReason::stop, FinishReason::length}) {
    const Json whole = checked_answer(syntax, text, 1000, reason);
    for (const std::size_t size : {1, 5})
      EXPECT_EQ(checked_answer(syntax, text, size, reason), whole) << text << " in tokens of " << size;
  }
}

TEST(AnswerPaths, WholeAndStreamedAnswersAreTheSameWithFaultsInEveryNotation) {
  for (const Faults& notation : notations()) {
    for (const std::string& text : texts_of(notation))
      expect_same_answers(syntax_of(notation.sign, kTools), text);
  }
  for (const std::string& text : texts_in_tags()) expect_same_answers(syntax_of("<tool_call>", kTools), text);
}

// Text, a call and more text keep their order in whole and streamed answers.
TEST(AnswerPaths, TextAfterACallStaysAfterIt) {
  Answer answer = answer_of(syntax_of("<tool_call>", kTools));
  const auto format = make_messages_format();
  stream(*format, answer,
         events_of("A <tool_call>{\"name\": \"get_time\"}</tool_call> B", 3, FinishReason::stop));
  const Json body = format->body(answer);
  std::string types;
  for (const Json& block : body.at("content")) types += block.at("type").get<std::string>() + " ";
  EXPECT_EQ(types, "text tool_use text ");
}

// OpenAI's and Anthropic's servers also return calls that `max_tokens` cuts off. Clients recognize that such
// a call is incomplete.
TEST(AnswerPaths, ACutCallIsReported) {
  const std::string text = "<tool_call>{\"name\": \"note\", \"arguments\": {\"text\": \"a";
  Answer answer = answer_of(syntax_of("<tool_call>", kTools));
  const auto format = make_messages_format();
  stream(*format, answer, events_of(text, 3, FinishReason::length));
  const Json body = format->body(answer);
  EXPECT_EQ(body.at("content").at(0).at("input"), Json::parse(R"({"INVALID_JSON": "{\"text\": \"a"})"));
  EXPECT_EQ(body.at("stop_reason"), "max_tokens");
  const Json response = make_responses_format()->body(answer);
  EXPECT_EQ(response.at("output").at(0).at("status"), "incomplete");
  EXPECT_EQ(response.at("output").at(0).at("arguments"), "{\"text\": \"a");
}

// Copying a value recurses once per level, and a model may generate any number of levels.
TEST(AnswerPaths, ArgumentsOfManyLevelsAreSentAsAText) {
  const std::string levels(100'000, '[');
  const std::string arguments = "{\"text\": " + levels + std::string(levels.size(), ']') + "}";
  Answer answer = answer_of(syntax_of("<tool_call>", kTools));
  const auto format = make_messages_format();
  stream(*format, answer,
         events_of(R"(<tool_call>{"name": "note", "arguments": )" + arguments + "}</tool_call>", 1000,
                   FinishReason::stop));
  EXPECT_TRUE(format->body(answer).at("content").at(0).at("input").contains("INVALID_JSON"));
}

}  // namespace
}  // namespace tp::test
