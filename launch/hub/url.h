// Addresses: what they mean is decided by libcurl, which will also be who connects.
#pragma once

#include <string>
#include <string_view>

namespace tp {

// Scheme, host and port, by which a server is identified: "https://huggingface.co:443". Throws DownloadError
// for a text that is no address.
std::string origin_of(const std::string& url);

// Where a redirect from `url` to `target`, which may be relative, leads. Throws DownloadError for a target
// that is neither HTTP nor HTTPS.
std::string redirected(const std::string& url, const std::string& target);

// A path for an address: all but letters, digits and "-._~/" becomes "%..". In a segment slashes do, too.
std::string escaped(std::string_view path);
std::string escaped_segment(std::string_view text);

}  // namespace tp
