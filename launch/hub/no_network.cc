// Replaces checksum.cc, curl_http.cc and url.cc if the build found no libcurl or no OpenSSL. All uses of the
// network throw an error.
#include "launch/hub/checksum.h"
#include "launch/hub/curl_http.h"
#include "launch/hub/url.h"
#include "tp/internal/require.h"

namespace tp {
namespace {

[[noreturn]] void refuse() {
  throw_error<DownloadError>(
      "cannot use the network: expected a tp-infer that was built with libcurl and OpenSSL, found one "
      "without; install "
      "their development packages (libcurl4-openssl-dev and libssl-dev, or libcurl-devel and openssl-devel), "
      "and build "
      "tp-infer again");
}

}  // namespace

struct CurlHttp::Handle {};
CurlHttp::CurlHttp(std::chrono::seconds /*patience*/) { refuse(); }
CurlHttp::~CurlHttp() = default;
void CurlHttp::exchange(const OutgoingRequest& /*request*/, const HttpReceiver& /*receiver*/) { refuse(); }

struct Checksum::State {};
Checksum::Checksum(ChecksumKind /*kind*/, std::uint64_t /*size*/) { refuse(); }
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;
void Checksum::add(std::string_view /*bytes*/) { refuse(); }
std::string Checksum::finish() { refuse(); }

std::string origin_of(const std::string& /*url*/) { refuse(); }
std::string redirected(const std::string& /*url*/, const std::string& /*target*/) { refuse(); }
std::string escaped(std::string_view /*path*/) { refuse(); }
std::string escaped_segment(std::string_view /*text*/) { refuse(); }

}  // namespace tp
