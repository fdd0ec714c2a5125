#include "runtime/serve/page.h"

#include "runtime/serve/endpoints.h"
#include "runtime/serve/page_files.h"

#include <algorithm>

namespace tp {

const PageFile* find_page_file(std::string_view path) {
  if (path == "/") path = "/index.html";
  const auto found = std::ranges::find(kPageFiles, path, &PageFile::path);
  return found == std::end(kPageFiles) ? nullptr : &*found;
}

// The headers allow the page only its own scripts, and forbid other pages to embed it.
std::optional<HttpResponse> page_response(std::string_view path) {
  const PageFile* const file = find_page_file(path);
  if (file == nullptr) return std::nullopt;
  return HttpResponse{.body = std::string(file->content),
                      .content_type = std::string(file->type),
                      .headers = {{"Content-Security-Policy",
                                   "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action "
                                   "'none'; require-trusted-types-for 'script'; trusted-types 'none'"},
                                  {"X-Content-Type-Options", "nosniff"},
                                  {"Referrer-Policy", "no-referrer"},
                                  {"Cache-Control", "no-cache"}}};
}

void endpoints::page_file(Service& /*service*/, const Exchange& exchange) {
  exchange->respond(*page_response(exchange->request().path()));
}

}  // namespace tp
