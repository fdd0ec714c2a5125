#include "launch/options/chat_templates.h"

#include "tp/internal/require.h"

namespace tp {

ChatTemplate open_chat_template(const std::string& file, const std::filesystem::path& model) {
  if (!file.empty()) return ChatTemplate::load_file(file, model);
  std::optional<ChatTemplate> found = ChatTemplate::load(model);
  require<CheckpointError>(
      found.has_value(),
      "{}: cannot make a prompt of messages: expected a chat template in tokenizer_config.json, "
      "chat_template.jinja or chat_template.json, found none; give one with --template FILE, or "
      "continue texts with generate",
      model.string());
  return *std::move(found);
}

}  // namespace tp
