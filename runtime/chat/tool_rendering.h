#pragma once

#include "model/chat/chat_template.h"
#include "runtime/chat/bounded_json.h"
#include "runtime/chat/call_shape.h"
#include "runtime/chat/message_syntax.h"

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// Adapts OpenAI's messages to a chat template: its way to show tools, calls and results to the model, and the
// messages that it refuses. The constructor finds them by rendering probe conversations.
class ToolRendering {
 public:
  explicit ToolRendering(const ChatTemplate& chat);

  // The conversation in the template's form. `chat` must be the constructor's template.
  nlohmann::ordered_json adapted(const ChatTemplate& chat, nlohmann::ordered_json conversation) const;

  // The syntax of the model's messages, if its prompt asks for this syntax.
  const MessageSyntax& syntax() const { return syntax_; }
  // The shape of calls to which answers can be constrained.
  const CallShape& call_shape() const { return shape_; }

 private:
  // The place from which a template reads tools.
  enum class Tools : std::uint8_t {
    variable,        // `tools`, as in Hugging Face's library
    functions,       // `tools`, reduced to the functions, as in Apertus
    system_message,  // `tools` of a system message, as in GLM-4
    described,       // nowhere: the first user message describes them
  };
  // The form in which a template writes calls and their results.
  enum class Calls : std::uint8_t {
    objects,   // `tool_calls` whose arguments are objects
    texts,     // `tool_calls` whose arguments are texts
    granite,   // messages with the roles assistant_tool_call and tool_response
    metadata,  // the name as a message's metadata, and results with the role observation, as in GLM-4
    described  // not supported: calls and results become text
  };

  // The form of calls, the contents beside which the template writes calls, and whether it writes results.
  struct CallSupport {
    Calls calls = Calls::described;
    bool results = false;
    bool beside_null = false;
    bool beside_empty = false;
    bool beside_text = false;
  };

  static Tools find_tools(const ChatTemplate& chat);
  static CallSupport find_calls(const ChatTemplate& chat);
  nlohmann::ordered_json in_accepted_order(const ChatTemplate& chat,
                                           const nlohmann::ordered_json& conversation,
                                           nlohmann::ordered_json messages) const;
  void give_tools(nlohmann::ordered_json& conversation) const;
  nlohmann::ordered_json content_beside_calls(const nlohmann::ordered_json& message) const;
  void write_calls(nlohmann::ordered_json& message, nlohmann::ordered_json& messages,
                   BoundedJson& texts) const;
  void write_result(nlohmann::ordered_json& message, nlohmann::ordered_json& messages) const;

  MessageSyntax syntax_;
  CallShape shape_;
  Tools tools_ = Tools::variable;
  CallSupport calls_;
};

}  // namespace tp
