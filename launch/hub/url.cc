#include "launch/hub/url.h"

#include "launch/hub/download_error.h"
#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cctype>
#include <memory>

#include <curl/curl.h>
#include <fmt/format.h>

namespace tp {
namespace {

using Address = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

std::string reason_of(CURLUcode code) {
#if LIBCURL_VERSION_NUM >= 0x075000
  return curl_url_strerror(code);
#else
  return fmt::format("error {} of libcurl's URL parser", static_cast<int>(code));
#endif
}

void set(const Address& address, const std::string& url) {
  const CURLUcode code = curl_url_set(address.get(), CURLUPART_URL, url.c_str(), 0);
  require<DownloadError>(code == CURLUE_OK,
                         "cannot use the address {}: expected http:// or https://, found: {}; "
                         "check HF_ENDPOINT",
                         printable(url), reason_of(code));
}

Address parsed(const std::string& url) {
  Address address(curl_url(), &curl_url_cleanup);
  set(address, url);
  return address;
}

std::string part_of(const Address& address, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(address.get(), part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return {};
  std::string copy = text;
  curl_free(text);
  return copy;
}

std::string escaped_but(std::string_view text, std::string_view plain) {
  std::string result;
  for (const char c : text) {
    const bool is_plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || plain.find(c) != std::string_view::npos;
    result += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

}  // namespace

std::string origin_of(const std::string& url) {
  const Address address = parsed(url);
  std::string origin = fmt::format("{}://{}:{}", part_of(address, CURLUPART_SCHEME),
                                   part_of(address, CURLUPART_HOST), part_of(address, CURLUPART_PORT));
  std::transform(origin.begin(), origin.end(), origin.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return origin;
}

std::string redirected(const std::string& url, const std::string& target) {
  const Address address = parsed(url);
  set(address, target);  // relative to the first address
  const std::string scheme = part_of(address, CURLUPART_SCHEME);
  require<DownloadError>(
      scheme == "https" || scheme == "http",
      "cannot follow a redirect of {}: expected http:// or https://, found {}; check HF_ENDPOINT",
      printable(url), printable(target));
  char* text = nullptr;
  curl_url_get(address.get(), CURLUPART_URL, &text, 0);
  std::string result = text;
  curl_free(text);
  return result;
}

std::string escaped(std::string_view path) { return escaped_but(path, "-._~/"); }

std::string escaped_segment(std::string_view text) { return escaped_but(text, "-._~"); }

}  // namespace tp
