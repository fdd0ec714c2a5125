// Vocabularies with one token per line.
#pragma once

#include "model/files/file_kind.h"
#include "tp/internal/require.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

namespace tp {

// Calls use(line, number) for each line that is not empty, without the line's end. Throws CheckpointError if
// the file cannot be read or is no text.
template <class Use>
void for_each_vocabulary_line(const std::filesystem::path& file, const Use& use) {
  std::ifstream stream(file, std::ios::binary);
  require<CheckpointError>(stream.good(),
                           "{}: cannot read the file: expected a list of tokens; check its permissions",
                           file.string());
  refuse_other_kinds(file, FileKind::text);
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) use(line, number);
  }
}

}  // namespace tp
