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

// Grammar of the part before an answer of text or calls: thinking, and the header of a channel. Empty if
// there is no such part.
std::string preface_grammar(const MessageSyntax& syntax, Thinking thinking, bool has_calls);

// Grammar of an answer of calls, or, if calls are not required, of text that may be followed by calls. The
// arguments of `strict` tools and of required calls follow the tool's parameters. Other tools accept any
// object. `tools` as in OpenAI's API. Throws RequestError if a tool's parameters are not a supported JSON
// Schema with the type object.
std::string call_grammar(const CallShape& shape, const MessageSyntax& syntax,
                         const nlohmann::ordered_json& tools, const CallRules& rules);

// Whether the arguments of a tool's calls must always follow its parameters.
bool is_strict_tool(const nlohmann::ordered_json& tool);

}  // namespace tp
