// The files of the page at /, which are compiled into the program.
#pragma once

#include "runtime/http/http_message.h"

#include <optional>
#include <string_view>

namespace tp {

struct PageFile {
  std::string_view path;  // "/page.css"
  std::string_view type;
  std::string_view content;
};

// The file at a path, or null.
const PageFile* find_page_file(std::string_view path);
// The response that contains it; nullopt without such a file.
std::optional<HttpResponse> page_response(std::string_view path);

}  // namespace tp
