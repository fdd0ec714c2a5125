// Which commands fit which models.
#pragma once

#include "tp/model_kind.h"

#include <filesystem>

namespace tp {

// Throws ConfigError, naming the commands that fit, if the model of that folder or file does something else.
void require_task(const std::filesystem::path& model, Task task);

}  // namespace tp
