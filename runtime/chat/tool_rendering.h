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

// How a chat template tells a model of tools, their calls and results, and what it refuses. OpenAI's messages
// have to be adapted to it. Found out by rendering conversations of its own.
class ToolRendering {
 public:
  explicit ToolRendering(const ChatTemplate& chat);

  // The conversation as the template understands it, which must be the one of the constructor.
  nlohmann::ordered_json adapted(const ChatTemplate& chat, nlohmann::ordered_json conversation) const;

  // How the model writes messages when it is asked so.
  const MessageSyntax& syntax() const { return syntax_; }
  // How it writes calls when it is held to that.
  const CallShape& call_shape() const { return shape_; }

 private:
  // Where a template takes tools from.
  enum class Tools : std::uint8_t {
    variable,        // `tools`, as Hugging Face's library gives them
    functions,       // `tools`, as the functions alone, as Apertus
    system_message,  // `tools` of a message of the system, as GLM-4's
    described,       // nowhere: they are described in the first message of the user
  };
  // How it writes calls, and their results.
  enum class Calls : std::uint8_t {
    objects,   // `tool_calls` whose arguments are objects
    texts,     // `tool_calls` whose arguments are texts
    granite,   // messages of the roles assistant_tool_call and tool_response
    metadata,  // the name as metadata of a message, results of the role observation, as GLM-4
    described  // not at all: both become text
  };

  // How the template writes calls, beside which contents it writes them, and whether it writes results.
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
