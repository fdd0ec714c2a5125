// The notation in which the model of a chat template writes messages.
#pragma once

#include "runtime/chat/tag_notation.h"
#include "runtime/chat/tool_set.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Notations of tool calls. In all of them, a call that begins with a brace or a bracket is JSON.
enum class CallForm : std::uint8_t {
  json,      // only JSON
  keyed,     // JSON whose keys are the tools' names: {"f": {...}}
  tagged,    // <function=f><parameter=key>value</parameter></function>, or CallNotation::tags
  mistral,   // f[ARGS]{...}
  deepseek,  // f<｜tool▁sep｜>{...}, or function<｜tool▁sep｜>f and the JSON in a code block
  glm,       // f, a new line, {...}, as a whole answer
  kimi,      // functions.f:0<|tool_call_argument_begin|>{...}
  solar,     // id<|tool_call:name|>f<|tool_call:args|>{...}
  gemma,     // call:f{key:<escape>text<escape>}
  pythonic,  // [f(key="text", other=None)], or one call in each line
};

struct CallNotation {
  CallForm form = CallForm::json;
  const TagNotation* tags = &kKeysAndValues;
  std::vector<std::string> begins{};    // texts before a call
  std::vector<std::string> fillers{};   // texts around calls without further meaning
  std::vector<std::string> sections{};  // fillers that may come before the first call
  std::vector<std::string> heads{};     // texts that identify a call if the text before it is missing
  std::string end{};                    // end of a call that does not end with JSON
  bool may_open_answer = false;         // an answer may begin with a call, without any of `begins`
  bool may_end_thinking = false;        // a call may follow thinking without thinking's end marker
};

struct ThinkingMarkers {
  std::string begin{};
  std::string end{};

  bool empty() const { return begin.empty(); }
  // Whether a prompt ends within thinking: with the begin marker, and perhaps the tag of a section in it,
  // like Seed-OSS without a thinking budget.
  bool are_begun_by(std::string_view prompt) const;
};

struct MessageSyntax {
  // gpt-oss's channels, in which each part has a header.
  bool has_channels = false;
  ThinkingMarkers thinking{};
  CallNotation calls{};
  // Texts around the message's text: the first stands before it, the last after it.
  std::vector<std::string> wrappers{};

  // All texts that may be control tokens. The reader needs them in the text.
  std::vector<std::string> markers() const;
};

// The syntax of the family to which a template's source belongs. Unknown templates are assumed to write calls
// as JSON.
MessageSyntax syntax_of_template(std::string_view source);

// Extends a notation with JSON calls, for a model whose prompt asks for JSON calls.
CallNotation also_as_json(CallNotation notation);

}  // namespace tp
