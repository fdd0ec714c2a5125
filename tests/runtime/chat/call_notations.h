// Two calls in the notations of the families.
#pragma once

#include "tests/runtime/chat/read_messages.h"

#include <string>
#include <vector>

namespace tp::test {

inline const Json kOslo = Json::parse(R"(["get_weather", {"city": "Oslo", "days": 2}])");
inline const Json kNote = Json::parse(R"(["note", {"a": [1, {"b": "}\"]"}], "c": null}])");
inline const std::string kOsloJson = R"({"city": "Oslo", "days": 2})";
inline const std::string kNoteJson = R"({"a": [1, {"b": "}\"]"}], "c": null})";

inline std::string object_of(const std::string& name, const std::string& arguments,
                             const std::string& key = "arguments") {
  return R"({"name": ")" + name + R"(", ")" + key + R"(": )" + arguments + "}";
}

inline Json one_call() { return Json::array({kOslo}); }
inline Json two_calls() { return Json::array({kOslo, kNote}); }

// A family's notation of calls, the sign by which templates show it, and the two calls in it.
struct Notation {
  std::string name;
  std::string sign;  // the sign in its templates
  std::string two_calls;
};

inline std::string hunyuan_calls(const std::string& suffix) {
  const std::string text =
      "<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
      "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>note<tool_sep>\n"
      "<arg_key>a</arg_key>\n<arg_value>[1, {\"b\": \"}\\\"]\"}]</arg_value>\n<arg_key>c</arg_key>\n"
      "<arg_value>null</arg_value>\n</tool_call>\n</tool_calls>";
  std::string with_suffix;
  for (const char byte : text) with_suffix += byte == '>' ? suffix + ">" : std::string(1, byte);
  return with_suffix;
}

inline std::string dsml_calls(const std::string& block) {
  const std::string parameter = "<｜DSML｜parameter name=\"";
  const std::string end = "</｜DSML｜parameter>\n";
  return "<｜DSML｜" + block + ">\n<｜DSML｜invoke name=\"get_weather\">\n" + parameter +
         "city\" string=\"true\">Oslo" + end + parameter + "days\" string=\"false\">2" + end +
         "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"note\">\n" + parameter +
         "a\" string=\"false\">[1, {\"b\": \"}\\\"]\"}]" + end + parameter + "c\" string=\"false\">null" +
         end + "</｜DSML｜invoke>\n</｜DSML｜" + block + ">";
}

inline const std::vector<Notation>& notations() {
  const std::string oslo = object_of("get_weather", kOsloJson);
  const std::string note = object_of("note", kNoteJson);
  static const std::vector<Notation> kNotations = {
      {"Hermes and Qwen", "<tool_call>",
       "<tool_call>\n" + oslo + "\n</tool_call>\n<tool_call>\n" + note + "\n</tool_call>"},
      {"Llama 3", "<|python_tag|>",
       object_of("get_weather", kOsloJson, "parameters") + "; " + object_of("note", kNoteJson, "parameters")},
      {"Llama 3 with a tag", "<|python_tag|>", "<|python_tag|>" + oslo + ";<|python_tag|>" + note},
      {"Mistral, a list", "[TOOL_CALLS]",
       "[TOOL_CALLS] [" + oslo + ", " + object_of("note", kNoteJson + R"(, "id": "abcdef123")") + "]"},
      {"Mistral, names", "[TOOL_CALLS]",
       "[TOOL_CALLS]get_weather[ARGS]" + kOsloJson + "[TOOL_CALLS]note[CALL_ID]123456789[ARGS]" + kNoteJson},
      {"DeepSeek R1", "<｜tool▁calls▁begin｜>",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n" + kOsloJson +
           "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>note\n```json\n" +
           kNoteJson + "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {"DeepSeek V3.1", "<｜tool▁calls▁begin｜>",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" + kOsloJson +
           "<｜tool▁call▁end｜><｜tool▁call▁begin｜>note<｜tool▁sep｜>" + kNoteJson +
           "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {"GLM 4.5", "<tool_call>",
       "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</"
       "arg_key>\n"
       "<arg_value>2</arg_value>\n</tool_call>\n<tool_call>note<arg_key>a</arg_key><arg_value>[1, {\"b\": "
       "\"}\\\"]\"}]</arg_value><arg_key>c</arg_key><arg_value>null</arg_value></tool_call>"},
      {"Qwen3-Coder", "<tool_call>",
       "<tool_call>\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n<parameter=days>\n2\n</"
       "parameter>\n"
       "</function>\n</tool_call>\n<tool_call>\n<function=note>\n<parameter=a>\n[1, {\"b\": "
       "\"}\\\"]\"}]\n</parameter>\n"
       "<parameter=c>\nnull\n</parameter>\n</function>\n</tool_call>"},
      {"Granite", "<|start_of_role|>", "<|tool_call|>[" + oslo + ", " + note + "]"},
      {"Phi-4-mini", "<|tool_call|>",
       R"(<|tool_call|>[{"type": "function", "function": )" + oslo + "}, " + note + "]<|/tool_call|>"},
      {"Gemma 4", "<|tool_call>",
       "<|tool_call>call:get_weather{city:<|\"|>Oslo<|\"|>,days:2}<tool_call|><|tool_call>call:note{a:[1,{b:<"
       "|\"|>}\"]"
       "<|\"|>}],c:null}<tool_call|>"},
      {"FunctionGemma", "<start_function_call>",
       "<start_function_call>call:get_weather{city:<escape>Oslo<escape>,days:2}<end_function_call>"
       "<start_function_call>call:note{a:[1,{b:<escape>}\"]<escape>}],c:null}<end_function_call>"},
      {"Kimi K2", "<|tool_calls_section_begin|>",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>" +
           kOsloJson + "<|tool_call_end|><|tool_call_begin|>functions.note:1<|tool_call_argument_begin|>" +
           kNoteJson + "<|tool_call_end|><|tool_calls_section_end|>"},
      {"LFM2", "<|tool_list_start|>",
       "<|tool_call_start|>[get_weather(city=\"Oslo\", days=2), note(a=[1, {'b': '}\"]'}], "
       "c=None)]<|tool_call_end|>"},
      {"LFM2, one by one", "<|tool_call_start|>",
       "<|tool_call_start|>get_weather(city='Oslo', days=2)<|tool_call_end|>\n<|tool_call_start|>[note( a = "
       "[1, "
       "{\"b\": \"}\\\"]\"}],c=null )]<|tool_call_end|>"},
      {"LFM2, JSON", "List of tools: [", "<|tool_call_start|>[" + oslo + ", " + note + "]<|tool_call_end|>"},
      {"harmony", "<|channel|>",
       "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + kOsloJson +
           "<|call|><|start|>assistant to=functions.note<|channel|>commentary json<|message|>" + kNoteJson +
           "<|call|>"},
      {"Seed-OSS", "<seed:tool_call>",
       "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Oslo</parameter>\n<parameter=days>2</"
       "parameter>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=note>\n<parameter=a>[1, "
       "{\"b\": "
       "\"}\\\"]\"}]</parameter>\n<parameter=c>None</parameter>\n</function>\n</seed:tool_call>"},
      {"MiniMax-M2", "<minimax:tool_call>",
       "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
       "name=\"city\">Oslo</parameter>\n<parameter "
       "name=\"days\">2</parameter>\n</invoke>\n<invoke name=\"note\">\n<parameter name=\"a\">[1, {\"b\": "
       "\"}\\\"]\"}]</parameter>\n<parameter name=\"c\">null</parameter>\n</invoke>\n</minimax:tool_call>"},
      {"Command A", "<|START_ACTION|>",
       "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": " +
           kOsloJson + "},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"note\", \"parameters\": " +
           kNoteJson + "}\n]<|END_ACTION|>"},
      {"Apertus", "<|tools_prefix|>",
       "<|tools_prefix|>[{\"get_weather\": " + kOsloJson + "}, {\"note\": " + kNoteJson +
           "}]<|tools_suffix|>"},
      {"Olmo 3", "<function_calls>",
       "<function_calls>get_weather(city='Oslo', days=2)\nnote(a=[1, {\"b\": \"}\\\"]\"}], "
       "c=null)</function_calls>"},
      {"Hunyuan and Jamba", "<tool_calls>", "<tool_calls>[" + oslo + ", " + note + "]</tool_calls>"},
      {"MiniMax-M1", "<tool_calls>", "<tool_calls>\n" + oslo + "\n" + note + "\n</tool_calls>"},
      {"Hunyuan 3", "<tool_sep>", hunyuan_calls("")},
      {"Hunyuan 3 as published", ":opensource", hunyuan_calls(":opensource")},
      {"DeepSeek V3.2", "｜DSML｜", dsml_calls("function_calls")},
      {"DeepSeek V4", "｜DSML｜tool_calls", dsml_calls("tool_calls")},
      {"LongCat", "<longcat_tool_call>",
       "<longcat_tool_call>\n" + oslo + "\n</longcat_tool_call>\n<longcat_tool_call>\n" + note +
           "\n</longcat_tool_call>"},
      {"LongCat in tags", "<longcat_tool_call>",
       "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>Oslo</"
       "longcat_arg_value>\n<longcat_arg_key>days</longcat_arg_key>\n<longcat_arg_value>2</"
       "longcat_arg_value>\n</longcat_tool_call>\n<longcat_tool_call>note\n<longcat_arg_key>a</"
       "longcat_arg_key>\n<longcat_arg_value>[1, {\"b\": \"}\\\"]\"}]</longcat_arg_value>\n"
       "<longcat_arg_key>c</longcat_arg_key>\n<longcat_arg_value>null</longcat_arg_value>\n"
       "</longcat_tool_call>"},
      {"generic JSON", "", "[" + oslo + ",\n" + note + "]"},
      {"generic JSON in a block of code", "", "```json\n" + oslo + "\n```\n```json\n" + note + "\n```"},
      {"generic JSON, arguments first", "",
       R"({"arguments": )" + kOsloJson + R"(, "name": "get_weather"})" + "\n" + note},
  };
  return kNotations;
}

}  // namespace tp::test
