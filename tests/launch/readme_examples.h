// The commands that README.md shows, as a user types them.
#pragma once

#include "tests/launch/process.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tp::test {

// The lines of the first block of shell commands of a section ("## Encoders"), without the comments behind
// them.
std::vector<std::string> readmes_lines(const std::string& section);

// Runs such a line in a folder.
Finished run_line(const std::string& line, const std::filesystem::path& folder);

}  // namespace tp::test
