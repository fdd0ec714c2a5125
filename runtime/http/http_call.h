// The client side of HTTP/1.1: a request to another server, on a connection of its own.
#pragma once

#include "runtime/http/http_message.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tp {

// "http://node1:8080/announce" in parts.
struct HttpUrl {
  std::string host{};  // a name or an address; IPv6 addresses without brackets
  std::uint16_t port = 80;
  std::string path = "/";
};
// Throws ConfigError if the text is not such a URL.
HttpUrl parse_http_url(const std::string& text);

// Whether an address to listen at stands for all addresses of the machine.
bool is_wildcard(std::string_view host);

// The URL under which other hosts and people know a server that listens at `host`. A wildcard becomes this
// machine's name.
std::string usable_url(const std::string& host, std::uint16_t port);

// This machine's address on the way to the server. Throws ConfigError if there is none.
std::string local_address_towards(const HttpUrl& server);

// A request, with the two parts of its body. `method`, `target` and `headers` are sent as they are, followed
// by Content-Length and Connection.
struct HttpCallRequest {
  HttpUrl server{};  // its path is not used
  HttpRequest head{};
  std::string begin_of_body{};
  std::shared_ptr<const std::string> rest_of_body{};  // null: empty
  std::chrono::milliseconds silence{0};               // longest time without a byte of the response; 0: any
};

// Called on the server's thread. `on_end` is the last call; `error` is empty if the response is complete.
struct HttpCallEvents {
  std::function<void(int status, const HttpHeaders& headers)> on_head{};  // names in lower case
  std::function<void(std::string_view piece)> on_piece{};  // part of the body, without its chunks
  std::function<void(const std::string& error)> on_end{};
};

// A call in progress. It stays alive until it has ended, even without this handle.
class HttpCall {
 public:
  virtual ~HttpCall() = default;
  // Closes the connection. No event follows.
  virtual void cancel() = 0;
};

}  // namespace tp
