// Addresses. libcurl interprets them, because it also makes the connections.
#pragma once

#include <string>
#include <string_view>

namespace tp {

// Returns scheme, host and port, which identify a server: "https://huggingface.co:443". Throws DownloadError
// for invalid addresses.
std::string origin_of(const std::string& url);

// Returns the address of a redirect from `url` to `target`, which may be relative. Throws DownloadError if
// `target` is neither HTTP nor HTTPS.
std::string redirected(const std::string& url, const std::string& target);

// Escapes a path for an address: replaces all characters except letters, digits and "-._~/" by "%..". In a
// segment, slashes are escaped, too.
std::string escaped(std::string_view path);
std::string escaped_segment(std::string_view text);

}  // namespace tp
