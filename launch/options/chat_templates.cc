#include "launch/options/chat_templates.h"

namespace tp {

ChatTemplate open_chat_template(const std::string& file, const std::filesystem::path& model) {
  return ChatTemplate::open(file, model, "give one with --template FILE, or continue texts with generate");
}

}  // namespace tp
