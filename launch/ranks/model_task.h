// Checks that a command suits a model.
#pragma once

#include "tp/model_kind.h"

#include <filesystem>

namespace tp {

// Throws ConfigError with the suitable commands if the model in this folder or file has a different task.
void require_task(const std::filesystem::path& model, Task task);

}  // namespace tp
