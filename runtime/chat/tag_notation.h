#pragma once

#include <string_view>

namespace tp {

// The notation of a call in tags: the head with the tool's name, then keys and values without quotes.
struct TagNotation {
  std::string_view head;         // before the name
  std::string_view head_end;     // after the name; empty: white space or a tag ends it
  std::string_view key_begin;    // before a parameter's name
  std::string_view key_end;      // after a parameter's name
  std::string_view value_begin;  // before a parameter's value; may be empty
  std::string_view text_begin;   // in place of value_begin, before a text; may be empty
  std::string_view value_end;    // after a parameter's value
  std::string_view tail;         // after the last value; may be empty
  bool has_lines = false;        // values are on separate lines
};

// GLM 4.5: NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value> ...
inline constexpr TagNotation kKeysAndValues = {.head = "",
                                               .head_end = "",
                                               .key_begin = "<arg_key>",
                                               .key_end = "</arg_key>",
                                               .value_begin = "<arg_value>",
                                               .text_begin = "",
                                               .value_end = "</arg_value>",
                                               .tail = ""};
// Hunyuan 3: NAME<tool_sep> <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value> ...
inline constexpr TagNotation kSeparatedKeys = {.head = "",
                                               .head_end = "<tool_sep>",
                                               .key_begin = "<arg_key>",
                                               .key_end = "</arg_key>",
                                               .value_begin = "<arg_value>",
                                               .text_begin = "",
                                               .value_end = "</arg_value>",
                                               .tail = ""};
// Hunyuan 3 as published.
inline constexpr TagNotation kOpenSourceKeys = {.head = "",
                                                .head_end = "<tool_sep:opensource>",
                                                .key_begin = "<arg_key:opensource>",
                                                .key_end = "</arg_key:opensource>",
                                                .value_begin = "<arg_value:opensource>",
                                                .text_begin = "",
                                                .value_end = "</arg_value:opensource>",
                                                .tail = ""};
// LongCat: NAME <longcat_arg_key>KEY</longcat_arg_key> <longcat_arg_value>VALUE</longcat_arg_value> ...
inline constexpr TagNotation kLongCatKeys = {.head = "",
                                             .head_end = "",
                                             .key_begin = "<longcat_arg_key>",
                                             .key_end = "</longcat_arg_key>",
                                             .value_begin = "<longcat_arg_value>",
                                             .text_begin = "",
                                             .value_end = "</longcat_arg_value>",
                                             .tail = ""};
// Qwen3-Coder, Seed-OSS: <function=NAME> <parameter=KEY> VALUE </parameter> ... </function>
inline constexpr TagNotation kParameters = {.head = "<function=",
                                            .head_end = ">",
                                            .key_begin = "<parameter=",
                                            .key_end = ">",
                                            .value_begin = "",
                                            .text_begin = "",
                                            .value_end = "</parameter>",
                                            .tail = "</function>",
                                            .has_lines = true};
// MiniMax-M2: <invoke name="NAME"> <parameter name="KEY">VALUE</parameter> ... </invoke>
inline constexpr TagNotation kInvocations = {.head = "<invoke name=\"",
                                             .head_end = "\">",
                                             .key_begin = "<parameter name=\"",
                                             .key_end = "\">",
                                             .value_begin = "",
                                             .text_begin = "",
                                             .value_end = "</parameter>",
                                             .tail = "</invoke>"};
// DeepSeek V3.2 and V4: MiniMax-M2's tags with a prefix, and an attribute that says whether a value is a
// text.
inline constexpr TagNotation kDsmlInvocations = {.head = "<｜DSML｜invoke name=\"",
                                                 .head_end = "\">",
                                                 .key_begin = "<｜DSML｜parameter name=\"",
                                                 .key_end = "\"",
                                                 .value_begin = "string=\"false\">",
                                                 .text_begin = "string=\"true\">",
                                                 .value_end = "</｜DSML｜parameter>",
                                                 .tail = "</｜DSML｜invoke>"};

}  // namespace tp
