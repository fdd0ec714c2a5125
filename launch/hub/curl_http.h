#pragma once

#include "launch/hub/http.h"

#include <chrono>
#include <memory>

namespace tp {

// HTTP and HTTPS by libcurl, which also reads the usual proxy variables (https_proxy, no_proxy). Trusts the
// system's certificates, or those in CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE or SSL_CERT_FILE.
class CurlHttp : public HttpClient {
 public:
  // Throws TransientError if a connection takes longer than `patience`, or a transfer stalls for this time.
  explicit CurlHttp(std::chrono::seconds patience);
  ~CurlHttp() override;
  CurlHttp(const CurlHttp&) = delete;
  CurlHttp& operator=(const CurlHttp&) = delete;

  void exchange(const OutgoingRequest& request, const HttpReceiver& receiver) override;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace tp
