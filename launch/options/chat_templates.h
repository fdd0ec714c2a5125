// The chat template that a command uses.
#pragma once

#include "model/chat/chat_template.h"

#include <filesystem>
#include <string>

namespace tp {

// Opens the template in `file`, or the model's own template if `file` is empty. Throws CheckpointError if
// there is none.
ChatTemplate open_chat_template(const std::string& file, const std::filesystem::path& model);

}  // namespace tp
