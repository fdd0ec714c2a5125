// Notices about oddities of a model's files that stop nothing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tp {

// Keeps a notice, "FILE: ...", until somebody asks for it. Readers find oddities far from where anybody could
// print them. A notice that is there already is not kept again, and nothing after kMostFileNotices. From any
// thread.
void note_about_file(std::string notice);
inline constexpr std::size_t kMostFileNotices = 16;

// Notes that an object of the file has a key more than once.
void note_repeated_key(const std::string& file, const std::string& key);

// The notices since the last call, in the order in which they came.
std::vector<std::string> take_file_notices();

}  // namespace tp
