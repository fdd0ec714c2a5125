#pragma once

#include <string_view>
#include <vector>

namespace tp {

// The parts of a text between separators; one part if it has none. Also for long lists of names, which are
// easier to read as a text than as a column.
inline std::vector<std::string_view> split_text(std::string_view text, char separator = ' ') {
  std::vector<std::string_view> parts;
  for (std::size_t end = text.find(separator); end != text.npos; end = text.find(separator)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

}  // namespace tp
