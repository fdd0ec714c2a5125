// An HTTP client that can also misbehave.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp::test {

struct HttpReply {
  int status = 0;                                // 0: the connection ended before the status line
  std::map<std::string, std::string> headers{};  // names in lower case
  std::string body{};                            // the decoded chunks
  bool is_complete = false;

  nlohmann::json json() const;
  // Returns the data of the server-sent events, in order.
  std::vector<std::string> events() const;
  // Returns the server-sent events that are JSON.
  std::vector<nlohmann::json> chunks() const;
};

// A connection to the server on this host.
class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, int receive_bytes = 0);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void send(std::string_view bytes) const;
  // Reads a whole reply. `is_head`: the request was HEAD, so the reply has no body.
  HttpReply read(bool is_head = false);
  // Reads until `text` arrives or nothing more arrives. Returns the bytes of the reply so far.
  std::string read_until(std::string_view text);
  // Returns whether the server closes the connection within this time.
  bool is_closed_by_server(double seconds = 20);
  void close();
  // Closes the sending direction only, like `nc -N`.
  void end_sending() const;
  // Closes the connection so that the server gets an error, like a client that crashed.
  void reset();

 private:
  bool receive();

  int socket_ = -1;
  std::string received_;
};

using Headers = std::vector<std::pair<std::string, std::string>>;

// Returns the bytes of a request. A POST request gets its body's type and length.
std::string request_text(const std::string& method, const std::string& target, const std::string& body = "",
                         const Headers& headers = {});

// Each of these functions sends one request on a new connection.
HttpReply get(std::uint16_t port, const std::string& target, const Headers& headers = {});
HttpReply post(std::uint16_t port, const std::string& target, const nlohmann::json& body,
               const Headers& headers = {});
HttpReply post_text(std::uint16_t port, const std::string& target, const std::string& body,
                    const Headers& headers = {});

}  // namespace tp::test
