// Runs commands from guides.
#pragma once

#include "tests/launch/process.h"

#include <filesystem>
#include <string>

namespace tp::test {

// Runs one line or several in the folder, with tp-infer on the PATH. Stops at the first command that fails.
Finished run_line(const std::string& line, const std::filesystem::path& folder);

}  // namespace tp::test
