#pragma once

#include "model/chat/chat_template.h"
#include "runtime/chat/call_ids.h"

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace tp {

// The form of tools and calls that a chat template needs: certain fields of functions, and ids of a certain
// form. Clients may not know the form. The constructor finds it by rendering short conversations.
class ToolConventions {
 public:
  explicit ToolConventions(const ChatTemplate& chat);

  // Adds the fields and ids that the template needs to a conversation in OpenAI's format.
  void apply(nlohmann::ordered_json& conversation) const;

 private:
  CallIds ids_;
  bool needs_description_;
  bool needs_parameters_;
};

// Renders a conversation. Calls get ids if the notation needs them. Returns nullopt if the template refuses
// the conversation.
std::optional<std::string> render_probe(const ChatTemplate& chat, const nlohmann::ordered_json& conversation);

}  // namespace tp
