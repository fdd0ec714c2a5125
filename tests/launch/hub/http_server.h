// A web server on this machine that can misbehave: a handler writes raw bytes to its connections.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tp::test {

struct WebRequest {
  std::string method{};
  std::string target;                         // "/path?query"
  std::map<std::string, std::string> fields;  // names in lower case
  int connection = -1;
  std::string body{};

  std::string field(const std::string& name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? "" : found->second;
  }
};

class HttpServer {
 public:
  // Called in a thread per connection. Each connection has one request and is closed afterwards.
  using Handler = std::function<void(const WebRequest&)>;

  explicit HttpServer(Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string address() const;  // "http://127.0.0.1:34567"

  // Returns false if the other end has closed the connection.
  static bool send(const WebRequest& request, std::string_view bytes);
  // Waits until the other end closes the connection, or the server ends.
  void wait_for_end(const WebRequest& request) const;

 private:
  void accept_all();
  void serve(int connection);

  Handler handler_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> ends_ = false;
  std::mutex mutex_;
  std::vector<std::thread> connections_;
  std::thread acceptor_;
};

}  // namespace tp::test
