// A client that speaks HTTP badly if a test wants it to.
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
  int status = 0;                                // 0 if the connection ended before it
  std::map<std::string, std::string> headers{};  // names in lower case
  std::string body{};                            // without its chunks
  bool is_complete = false;

  nlohmann::json json() const;
  // Returns the data of the server-sent events, in order.
  std::vector<std::string> events() const;
  // Returns the server-sent events that are JSON.
  std::vector<nlohmann::json> chunks() const;
};

// One connection.
class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, int receive_bytes = 0);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void send(std::string_view bytes) const;
  // Reads a whole reply; `is_head`: to HEAD, which has no body.
  HttpReply read(bool is_head = false);
  // Reads until this came, or nothing more comes. Returns what came so far of the reply's bytes.
  std::string read_until(std::string_view text);
  // Whether the server ends the connection within some seconds.
  bool is_closed_by_server(double seconds = 20);
  void close();
  // Ends this direction of the connection, as `nc -N` does.
  void end_sending() const;
  // Closes so that the server gets an error, as from a client that crashed.
  void reset();

 private:
  bool receive();

  int socket_ = -1;
  std::string received_;
};

using Headers = std::vector<std::pair<std::string, std::string>>;

// The bytes of a request; a POST has its body's type and length.
std::string request_text(const std::string& method, const std::string& target, const std::string& body = "",
                         const Headers& headers = {});

// One request on a connection of its own.
HttpReply get(std::uint16_t port, const std::string& target, const Headers& headers = {});
HttpReply post(std::uint16_t port, const std::string& target, const nlohmann::json& body,
               const Headers& headers = {});
HttpReply post_text(std::uint16_t port, const std::string& target, const std::string& body,
                    const Headers& headers = {});

}  // namespace tp::test
