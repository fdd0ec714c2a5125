// The files of the programs that a command runs on this host.
#pragma once

#include <string>
#include <vector>

namespace tp {

// A text that changes if the command's own program, or a program `tp-infer` among its arguments, becomes
// another file. Programs are found as execvp finds them.
std::string identity_of_programs(const std::vector<std::string>& command);

}  // namespace tp
