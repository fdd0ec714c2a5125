// The files of the page at /, which are compiled into the program.
#pragma once

#include <string_view>

namespace tp {

struct PageFile {
  std::string_view path;  // "/page.css"
  std::string_view type;
  std::string_view content;
};

// The file at a path, or null.
const PageFile* find_page_file(std::string_view path);

}  // namespace tp
