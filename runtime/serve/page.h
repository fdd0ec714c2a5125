// The files of the page at /, which are compiled into the program.
#pragma once

#include "runtime/http/http_message.h"

#include <string>
#include <string_view>

namespace tp {

struct PageFile {
  std::string_view path;  // "/page.css"
  std::string_view type;
  std::string_view content;
};

// The file at a path, or null.
const PageFile* find_page_file(std::string_view path);

// Headers that allow the page only its own scripts, and forbid other pages to embed it.
HttpHeaders page_headers();

}  // namespace tp
