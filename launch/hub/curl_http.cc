#include "launch/hub/curl_http.h"

#include "tp/internal/require.h"
#include "tp/version.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <exception>

#include <curl/curl.h>

namespace tp {
namespace {

// A slower transfer counts as stalled.
constexpr long kMinBytesPerSecond = 1024;
constexpr std::size_t kMaxFields = 200;

// State of one response while libcurl calls back. Stores exceptions, because they must not pass through its C
// code.
struct Transfer {
  const HttpReceiver& receiver;
  HttpHead head{};
  bool head_is_passed = false;
  bool is_stopped = false;  // the receiver stopped it
  std::exception_ptr error{};

  template <class Action>
  bool guarded(const Action& action) {
    try {
      is_stopped = !action();
    } catch (...) {
      error = std::current_exception();
    }
    return !is_stopped && !error;
  }

  bool pass_head() {
    if (head_is_passed) return true;
    head_is_passed = true;
    return guarded([&] { return receiver.head(head); });
  }
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

// Reads a line of the head. A status line starts a new head, because "100 Continue" precedes the final one.
void add_head_line(std::string_view line, HttpHead& head) {
  if (line.starts_with("HTTP/")) {
    head = {};
    const std::size_t space = line.find(' ');
    if (space != line.npos) std::from_chars(line.data() + space + 1, line.data() + line.size(), head.status);
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == line.npos || head.fields.size() >= kMaxFields) return;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  head.fields[name] = trimmed(line.substr(colon + 1));
}

// Returning fewer bytes than received ends the transfer.
std::size_t on_head_line(char* data, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const bool goes_on = transfer.guarded([&] {
    add_head_line(std::string_view(data, size), transfer.head);
    return true;
  });
  return goes_on ? size : 0;
}

std::size_t on_body(char* data, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const bool goes_on = transfer.pass_head() &&
                       transfer.guarded([&] { return transfer.receiver.body(std::string_view(data, size)); });
  return goes_on ? size : 0;
}

bool is_no_connection(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
         code == CURLE_COULDNT_CONNECT;
}

// Whether another attempt would fail, too.
bool is_final(CURLcode code) {
  constexpr std::array kFinal = {
      CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT, CURLE_PEER_FAILED_VERIFICATION,
      CURLE_SSL_CACERT_BADFILE,   CURLE_SSL_CIPHER,    CURLE_OUT_OF_MEMORY};
  return std::find(kFinal.begin(), kFinal.end(), code) != kFinal.end();
}

// Returns libcurl's reason without OpenSSL's prefix: "error:0A00010B:SSL routines::wrong version number".
std::string plain_reason(CURLcode code, std::string_view reason) {
  if (code == CURLE_SSL_CONNECT_ERROR)
    return "the server does not speak TLS, or not in a version that both sides know; if it speaks plain "
           "HTTP, its "
           "address begins with http://";
  const bool is_plain = !reason.empty() && reason.find("SSL routines") == reason.npos;
  return is_plain ? std::string(reason) : curl_easy_strerror(code);
}

const char* certificates() {
  for (const char* name : {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* const file = std::getenv(name);
    if (file != nullptr && *file != '\0') return file;
  }
  return nullptr;
}

class FieldList {
 public:
  explicit FieldList(const OutgoingRequest& request) {
    // Compression would change ranges and sizes.
    add("Accept-Encoding: identity");
    if (!request.token.empty()) add("Authorization: Bearer " + request.token);
    if (!request.json) return;
    add("Content-Type: application/json");
    add("Expect:");  // libcurl would wait for "100 Continue", which not all servers send
  }
  ~FieldList() { curl_slist_free_all(list_); }
  FieldList(const FieldList&) = delete;
  FieldList& operator=(const FieldList&) = delete;

  curl_slist* get() const { return list_; }

 private:
  void add(const std::string& line) { list_ = curl_slist_append(list_, line.c_str()); }

  curl_slist* list_ = nullptr;
};

// libcurl copies texts, but not `fields` and the body.
void set_request(CURL* curl, const OutgoingRequest& request, const FieldList& fields) {
  const std::string agent = std::string("tp-infer/") + kVersion;
  const std::string range = std::to_string(request.first_byte) + "-";
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
  curl_easy_setopt(curl, CURLOPT_USERAGENT, agent.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, fields.get());
  if (request.json) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.json->size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.json->data());
  }
  if (request.first_byte > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  if (const char* const file = certificates()) curl_easy_setopt(curl, CURLOPT_CAINFO, file);
}

void set_patience(CURL* curl, const OutgoingRequest& request, std::chrono::seconds patience) {
  const auto seconds = static_cast<long>(patience.count());
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, seconds);
  if (request.may_pause) {
    curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);  // notices that the other host is gone
  } else {
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kMinBytesPerSecond);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, seconds);
  }
}

void set_receiver(CURL* curl, Transfer& transfer) {
  curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_head_line);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
}

// Performs the transfer of `curl` like curl_easy_perform, but polls the receiver meanwhile.
CURLcode perform(CURLM* multi, CURL* curl, Transfer& transfer) {
  constexpr int kWaitMs = 50;
  constexpr int kLongWaitMs = 1000;
  const std::function<bool()>& goes_on = transfer.receiver.goes_on;
  curl_multi_add_handle(multi, curl);
  CURLcode code = CURLE_RECV_ERROR;
  int running = 0;
  while (curl_multi_perform(multi, &running) == CURLM_OK && running > 0) {
    if (goes_on && !transfer.guarded(goes_on)) break;
    if (curl_multi_poll(multi, nullptr, 0, goes_on ? kWaitMs : kLongWaitMs, nullptr) != CURLM_OK) break;
  }
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi, &left)) {
    if (message->msg == CURLMSG_DONE) code = message->data.result;
  }
  curl_multi_remove_handle(multi, curl);
  return code;
}

[[noreturn]] void fail(CURLcode code, const std::string& url, const std::string& found) {
  if (is_final(code)) {
    throw_error<DownloadError>(
        "cannot read {}: expected an answer, found: {}; check the address (HF_ENDPOINT, --server) and the "
        "certificates (package ca-certificates, or CURL_CA_BUNDLE)",
        url, found);
  }
  if (is_no_connection(code)) throw ConnectionError(found);
  throw TransientError(found);
}

}  // namespace

// One handle for all requests, because `multi` keeps connections open.
struct CurlHttp::Handle {
  CURLM* multi = nullptr;
  CURL* curl = nullptr;
  std::chrono::seconds patience{};

  Handle() = default;
  ~Handle() {
    curl_easy_cleanup(curl);
    curl_multi_cleanup(multi);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};

CurlHttp::CurlHttp(std::chrono::seconds patience) : handle_(std::make_unique<Handle>()) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started == CURLE_OK) {
    handle_->multi = curl_multi_init();
    handle_->curl = curl_easy_init();
  }
  handle_->patience = patience;
  require<DownloadError>(
      handle_->curl != nullptr && handle_->multi != nullptr,
      "cannot use the network: expected libcurl to start, found an error; is memory exhausted?");
}

CurlHttp::~CurlHttp() = default;

void CurlHttp::exchange(const OutgoingRequest& request, const HttpReceiver& receiver) {
  CURL* const curl = handle_->curl;
  curl_easy_reset(curl);
  Transfer transfer{receiver};
  std::array<char, CURL_ERROR_SIZE> reason{};
  const FieldList fields(request);
  set_request(curl, request, fields);
  set_patience(curl, request, handle_->patience);
  set_receiver(curl, transfer);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason.data());
  const CURLcode code = perform(handle_->multi, curl, transfer);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
  if (code == CURLE_OK && !transfer.error && !transfer.is_stopped) transfer.pass_head();  // without a body
  if (transfer.error) std::rethrow_exception(transfer.error);
  if (code == CURLE_OK || transfer.is_stopped) return;
  fail(code, request.url, plain_reason(code, reason.data()));
}

}  // namespace tp
