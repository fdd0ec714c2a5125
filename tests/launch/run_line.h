// A command as a guide shows it.
#pragma once

#include "tests/launch/process.h"

#include <filesystem>
#include <string>

namespace tp::test {

// Runs the line in the folder, with tp-infer on the PATH.
Finished run_line(const std::string& line, const std::filesystem::path& folder);

}  // namespace tp::test
