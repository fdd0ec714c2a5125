#include "tests/launch/hub/http_server.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tp::test {
namespace {

WebRequest parse(const std::string& text, int connection) {
  std::istringstream lines(text);
  WebRequest request{.connection = connection};
  lines >> request.method >> request.target;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == line.npos) continue;
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request.fields[name] = line.substr(colon + 2, line.find('\r') - colon - 2);
  }
  return request;
}

}  // namespace

HttpServer::HttpServer(Handler handler) : handler_(std::move(handler)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("cannot start a server on 127.0.0.1");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

HttpServer::~HttpServer() {
  ends_ = true;
  acceptor_.join();
  for (std::thread& connection : connections_) connection.join();
  ::close(listener_);
}

std::string HttpServer::address() const { return "http://127.0.0.1:" + std::to_string(port_); }

void HttpServer::accept_all() {
  while (!ends_) {
    pollfd waiting = {listener_, POLLIN, 0};
    if (::poll(&waiting, 1, 20) <= 0) continue;
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) connections_.emplace_back([this, connection] { serve(connection); });
  }
}

void HttpServer::serve(int connection) {
  std::string text;
  char buffer[4096];
  while (text.find("\r\n\r\n") == text.npos) {
    const ssize_t count = ::recv(connection, buffer, sizeof(buffer), 0);
    if (count <= 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  if (!text.empty()) {
    WebRequest request = parse(text, connection);
    request.body = text.substr(text.find("\r\n\r\n") + 4);
    const auto length = static_cast<std::size_t>(std::atoi(request.field("content-length").c_str()));
    while (request.body.size() < length) {
      const ssize_t count = ::recv(connection, buffer, sizeof(buffer), 0);
      if (count <= 0) break;
      request.body.append(buffer, static_cast<std::size_t>(count));
    }
    handler_(request);
  }
  ::shutdown(connection, SHUT_WR);
  ::close(connection);
}

bool HttpServer::send(const WebRequest& request, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(request.connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

void HttpServer::wait_for_end(const WebRequest& request) const {
  while (!ends_) {
    pollfd waiting = {request.connection, POLLIN, 0};
    char byte = 0;
    if (::poll(&waiting, 1, 20) > 0 && ::recv(request.connection, &byte, 1, 0) <= 0) return;
  }
}

}  // namespace tp::test
