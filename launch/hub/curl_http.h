#pragma once

#include "launch/hub/http.h"

#include <chrono>
#include <memory>

namespace tp {

// HTTP and HTTPS by libcurl, which also reads the usual variables of proxies (https_proxy, no_proxy). The
// certificates to trust are the system's, or those of CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE or SSL_CERT_FILE.
class CurlHttp : public HttpClient {
 public:
  // A connection that is not made within `patience`, or a transfer that stalls for so long, is a
  // TransientError.
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
