#include "tests/serve/http_client.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tp::test {
namespace {

constexpr int kPatience = 60'000;  // milliseconds

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
  return text;
}

}  // namespace

nlohmann::json HttpReply::json() const {
  const nlohmann::json result = nlohmann::json::parse(body, nullptr, false);
  if (result.is_discarded()) throw std::runtime_error("not JSON: " + body);
  return result;
}

std::vector<std::string> HttpReply::events() const {
  std::vector<std::string> found;
  constexpr std::string_view kData = "data: ";
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = std::min(body.find('\n', at), body.size());
    const std::string line = body.substr(at, end - at);
    if (line.starts_with(kData)) found.push_back(line.substr(kData.size()));
    at = end + 1;
  }
  return found;
}

std::vector<nlohmann::json> HttpReply::chunks() const {
  std::vector<nlohmann::json> found;
  for (const std::string& event : events()) {
    if (event != "[DONE]") found.push_back(nlohmann::json::parse(event));
  }
  return found;
}

HttpClient::HttpClient(std::uint16_t port, int receive_bytes) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (receive_bytes != 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    throw std::runtime_error("cannot connect to port " + std::to_string(port));
}

HttpClient::~HttpClient() { close(); }

void HttpClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void HttpClient::end_sending() const { ::shutdown(socket_, SHUT_WR); }

void HttpClient::reset() {
  const linger at_once{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  close();
}

void HttpClient::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server has closed the connection
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

bool HttpClient::receive() {
  pollfd waiting{socket_, POLLIN, 0};
  if (::poll(&waiting, 1, kPatience) <= 0) return false;
  char buffer[16384];
  const ssize_t size = ::recv(socket_, buffer, sizeof(buffer), 0);
  if (size <= 0) return false;
  received_.append(buffer, static_cast<std::size_t>(size));
  return true;
}

std::string HttpClient::read_until(std::string_view text) {
  while (received_.find(text) == std::string::npos && receive()) {
  }
  return received_;
}

bool HttpClient::is_closed_by_server(double seconds) {
  pollfd waiting{socket_, POLLIN, 0};
  char buffer[16384];
  while (::poll(&waiting, 1, static_cast<int>(seconds * 1e3)) > 0) {
    if (::recv(socket_, buffer, sizeof(buffer), 0) <= 0) return true;
  }
  return false;
}

HttpReply HttpClient::read(bool is_head) {
  HttpReply reply;
  constexpr std::string_view kEnd = "\r\n\r\n";
  std::size_t body = std::string::npos;
  for (;;) {
    while ((body = received_.find(kEnd)) == std::string::npos) {
      if (!receive()) return reply;
    }
    body += kEnd.size();
    if (!received_.starts_with("HTTP/1.1 100")) break;
    received_.erase(0, body);
  }
  reply.status = std::atoi(received_.c_str() + 9);
  for (std::size_t at = received_.find("\r\n") + 2; at < body - 2;) {
    const std::size_t end = received_.find("\r\n", at);
    const std::size_t colon = received_.find(": ", at);
    reply.headers[lower(received_.substr(at, colon - at))] = received_.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  received_.erase(0, body);
  if (is_head || reply.status == 204) {
    reply.is_complete = true;
    return reply;
  }
  if (const auto length = reply.headers.find("content-length"); length != reply.headers.end()) {
    const std::size_t bytes = std::stoul(length->second);
    while (received_.size() < bytes && receive()) {
    }
    reply.is_complete = received_.size() >= bytes;
    reply.body = received_.substr(0, bytes);
    received_.erase(0, bytes);
    return reply;
  }
  if (!reply.headers.contains("transfer-encoding")) {
    while (receive()) {
    }
    reply.body = std::exchange(received_, {});
    reply.is_complete = true;
    return reply;
  }
  for (;;) {
    std::size_t end = 0;
    while ((end = received_.find("\r\n")) == std::string::npos) {
      if (!receive()) return reply;
    }
    const std::size_t bytes = std::stoul(received_.substr(0, end), nullptr, 16);
    while (received_.size() < end + 2 + bytes + 2) {
      if (!receive()) return reply;
    }
    reply.body += received_.substr(end + 2, bytes);
    received_.erase(0, end + 2 + bytes + 2);
    if (bytes != 0) continue;
    reply.is_complete = true;
    return reply;
  }
}

std::string request_text(const std::string& method, const std::string& target, const std::string& body,
                         const Headers& headers) {
  std::string text = method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n";
  if (method == "POST") {
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    const bool has_type = std::ranges::any_of(
        headers, [](const auto& header) { return lower(header.first) == "content-type"; });
    if (!has_type) text += "Content-Type: application/json\r\n";
  }
  for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
  return text + "\r\n" + body;
}

HttpReply get(std::uint16_t port, const std::string& target, const Headers& headers) {
  HttpClient client(port);
  client.send(request_text("GET", target, "", headers));
  return client.read();
}

HttpReply post_text(std::uint16_t port, const std::string& target, const std::string& body,
                    const Headers& headers) {
  HttpClient client(port);
  client.send(request_text("POST", target, body, headers));
  return client.read();
}

HttpReply post(std::uint16_t port, const std::string& target, const nlohmann::json& body,
               const Headers& headers) {
  return post_text(port, target, body.dump(), headers);
}

}  // namespace tp::test
