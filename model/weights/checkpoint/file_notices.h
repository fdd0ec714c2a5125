// Notices about oddities of a model's files that stop nothing.
#pragma once

#include <string>
#include <vector>

namespace tp {

// Keeps a notice, "FILE: ...", until somebody asks for it. Readers find oddities far from where anybody could
// print them. A notice that is there already is not kept again. From any thread.
void note_about_file(std::string notice);

// The notices since the last call, in the order in which they came.
std::vector<std::string> take_file_notices();

}  // namespace tp
