#include "runtime/serve/page.h"

#include "runtime/serve/page_files.h"

#include <algorithm>

namespace tp {

const PageFile* find_page_file(std::string_view path) {
  if (path == "/") path = "/index.html";
  const auto found = std::ranges::find(kPageFiles, path, &PageFile::path);
  return found == std::end(kPageFiles) ? nullptr : &*found;
}

HttpHeaders page_headers() {
  return {{"Content-Security-Policy",
           "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
           "require-trusted-types-for 'script'; trusted-types 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cache-Control", "no-cache"}};
}

}  // namespace tp
