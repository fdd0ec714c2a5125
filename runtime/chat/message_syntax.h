// How the model of a chat template writes messages.
#pragma once

#include "runtime/chat/tool_set.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// How calls of tools are written. A call that begins with a brace or a bracket is JSON in all of them.
enum class CallForm : std::uint8_t {
  json,      // nothing but JSON
  keyed,     // JSON whose keys are the tools' names: {"f": {...}}
  tagged,    // <function=f><parameter=key>value</parameter></function>, f<arg_key>key</arg_key>...
  invoked,   // <invoke name="f"><parameter name="key">value</parameter></invoke>
  mistral,   // f[ARGS]{...}
  deepseek,  // f<｜tool▁sep｜>{...}, function<｜tool▁sep｜>f and the JSON in a block of code
  glm,       // f, a new line, {...}, as a whole answer
  kimi,      // functions.f:0<|tool_call_argument_begin|>{...}
  gemma,     // call:f{key:<escape>text<escape>}
};

struct CallNotation {
  CallForm form = CallForm::json;
  std::vector<std::string> begins{};    // texts before a call
  std::vector<std::string> fillers{};   // texts around calls that mean nothing more
  std::vector<std::string> sections{};  // those of them that may come first
  std::vector<std::string> heads{};     // texts by which a call is known where the text before it is missing
  std::string end{};                    // of a call that is neither JSON nor ends with it
  bool may_open_answer = false;         // an answer may begin with a call, without any of `begins`
  bool may_end_thinking = false;        // a call may come without the end of what is thought before it
};

struct ThinkingMarkers {
  std::string begin{};
  std::string end{};

  bool empty() const { return begin.empty(); }
  // Whether a prompt ends within thinking: with its marker, and perhaps the tag of a section in it, as
  // Seed-OSS's without a budget for thinking.
  bool are_begun_by(std::string_view prompt) const;
};

struct MessageSyntax {
  // gpt-oss's channels, in which everything has a header.
  bool has_channels = false;
  ThinkingMarkers thinking{};
  CallNotation calls{};
  std::vector<std::string> wrappers{};  // texts around what is said

  // All texts that may be control tokens, which have to be in the text to be read.
  std::vector<std::string> markers() const;
};

// That of the family to which a template (its source) belongs; an unknown one is assumed to call tools as
// JSON.
MessageSyntax syntax_of_template(std::string_view source);

// A notation of which a model was told that calls may also be JSON.
CallNotation also_as_json(CallNotation notation);

}  // namespace tp
