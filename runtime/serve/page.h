// The files of the page at /, which are part of the program.
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

// The page runs no script but its own, and no other page may contain it.
HttpHeaders page_headers();

}  // namespace tp
