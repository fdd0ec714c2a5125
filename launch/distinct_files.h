#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tp {

// A file that a command uses, with the option that names it, as errors call it.
struct UsedFile {
  std::string option;
  std::string path;  // empty: none
};

// Throws RequestError if writing one of `written` would destroy a file that the command reads, or another one
// that it writes. Of what is read "-" is standard input, of what is written standard output; `model` is what
// find_model returns, empty for none. To be called before anything is opened for writing.
void require_distinct_files(const std::vector<UsedFile>& written, const std::vector<UsedFile>& read,
                            const std::filesystem::path& model);

}  // namespace tp
