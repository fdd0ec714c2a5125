#pragma once

#include "model/tokenizer/chat_template.h"
#include "runtime/tools/call_ids.h"

#include <nlohmann/json_fwd.hpp>

namespace tp {

// What a chat template wants of tools and calls and a client may not know: members of functions, and ids of a
// certain form. Found out by rendering conversations of its own.
class ToolConventions {
 public:
  explicit ToolConventions(const ChatTemplate& chat);

  // Writes what the template wants into a conversation in OpenAI's format.
  void apply(nlohmann::ordered_json& conversation) const;

 private:
  CallIds ids_;
  bool needs_description_;
  bool needs_parameters_;
};

// Ids that are part of the notation of calls: without them a template does not write calls.
CallIds ids_in_notation(const ChatTemplate& chat);

}  // namespace tp
