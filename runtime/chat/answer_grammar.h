// Grammars in GBNF for constrained answers.
#pragma once

#include "runtime/chat/call_shape.h"
#include "runtime/chat/message_syntax.h"
#include "tp/message.h"

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Whether a model thinks before its answer.
enum class Thinking : std::uint8_t {
  never,
  maybe,  // the model decides
  begun,  // the prompt has begun thinking
};

// Grammar of an answer whose text is `%constraint`, with the parts before the text: thinking, and the header
// of a channel. `has_calls`: the constraint is a call_grammar(), which includes headers. Empty if no part may
// precede the text.
std::string frame_grammar(const MessageSyntax& syntax, Thinking thinking, bool has_calls);

// Grammar of an answer of calls, or, if calls are not required, of text that may be followed by calls. The
// arguments of `strict` tools, of tools that get a text, and of required calls follow the tool's parameters
// or the text's format. Other tools accept any object. `tools` as in OpenAI's API. Throws RequestError if a
// tool's parameters are not a supported JSON Schema with the type object, or the format is not supported.
std::string call_grammar(const CallShape& shape, const MessageSyntax& syntax,
                         const nlohmann::ordered_json& tools, const CallRules& rules);

// Grammar of an answer that is, after thinking, either calls or the text `%constraint`. If calls are
// required, the answer is calls. Throws like call_grammar().
std::string calls_or_constraint_grammar(const CallShape& shape, const MessageSyntax& syntax,
                                        const nlohmann::ordered_json& tools, const CallRules& rules,
                                        Thinking thinking);

// Whether the arguments of a tool's calls always follow its parameters, because it is strict, or its text
// has a grammar.
bool has_held_arguments(const nlohmann::ordered_json& tool, const CallRules& rules);

}  // namespace tp
