// Answers that are held to a shape, as grammars in GBNF.
#pragma once

#include "runtime/chat/call_rules.h"
#include "runtime/chat/call_shape.h"
#include "runtime/chat/message_syntax.h"

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Whether a model thinks before its answer.
enum class Thinking : std::uint8_t {
  never,
  maybe,  // as it likes
  begun,  // the prompt has begun it
};

// What comes before an answer of text, or of calls: thinking, and the header of a channel; empty if nothing
// does.
std::string preface_grammar(const MessageSyntax& syntax, Thinking thinking, bool has_calls);

// An answer of calls, or, if they are not required, of text that may be followed by calls. Arguments are what
// the parameters of the tool allow, or, if the tool is not `strict` and calls are not required, any object.
// `tools` as in OpenAI's API. Throws RequestError for parameters that are no supported JSON Schema of
// objects.
std::string call_grammar(const CallShape& shape, const MessageSyntax& syntax,
                         const nlohmann::ordered_json& tools, const CallRules& rules);

// Whether the arguments of a tool's calls always have to be what its parameters allow.
bool is_strict_tool(const nlohmann::ordered_json& tool);

}  // namespace tp
