// Fuzzes the server's input from clients, over a socket. Seeds: HTTP requests.
#include "runtime/access/access.h"
#include "runtime/http/http_server.h"

#include <cstdint>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

tp::HttpOptions options() {
  static const tp::Access access({.api_keys = {{.key = "secret"}},
                                  .hosts = {"example.com"},
                                  .proxies = tp::TrustedProxies({"127.0.0.0/8"})});
  tp::HttpOptions options{
      .port = 0, .limits = {.body_bytes = 1000, .header_bytes = 2000, .header_time = 1s, .body_time = 1s}};
  options.route = [](tp::HttpRequest& head) -> tp::HttpDecision {
    access.refusal(head, access.identify(head) || head.path() == "/");
    access.origins().headers(head);
    access.origins().preflight_headers(head, "POST, OPTIONS");
    if (head.method == "DELETE") return tp::HttpResponse{.status = 405};
    return [](std::shared_ptr<tp::HttpExchange> exchange) {
      if (exchange->request().path() != "/stream") return exchange->respond({.body = exchange->take_body()});
      exchange->begin_stream({});
      exchange->write(exchange->request().target);
      exchange->end_stream();
    };
  };
  options.refuse = [](const tp::HttpRequest&, int status, std::string_view message) {
    return tp::HttpResponse{.status = status, .body = std::string(message)};
  };
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tp::HttpServer server(options());
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    ::send(client, data, size, MSG_NOSIGNAL);
    ::shutdown(client, SHUT_WR);
    char buffer[4096];
    while (::recv(client, buffer, sizeof(buffer), 0) > 0) {
    }
  }
  // Closes at once, without waiting for the port to become free.
  const linger at_once{1, 0};
  ::setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  ::close(client);
  return 0;
}
