// Notices about harmless oddities in a model's files.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tp {

// Stores a notice, "FILE: ...", until take_file_notices, because readers find oddities far from the code that
// can print them. Ignores duplicates, and all notices beyond kMaxFileNotices. Thread-safe.
void note_about_file(std::string notice);
inline constexpr std::size_t kMaxFileNotices = 16;

// Notes that an object of the file has a key more than once.
void note_repeated_key(const std::string& file, const std::string& key);

// Removes and returns the stored notices, in the order in which they came.
std::vector<std::string> take_file_notices();

}  // namespace tp
