#include "runtime/http/http_call.h"

#include "runtime/http/http_server.h"
#include "runtime/http/http_server_impl.h"
#include "runtime/http/network_fault.h"
#include "tp/internal/require.h"

#include <array>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <fmt/format.h>
#include <unistd.h>

namespace tp {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kPieceBytes = std::size_t{64} << 10;
constexpr std::size_t kHeadBytes = std::size_t{64} << 10;

// Sends the request and reads the response at the same time, because a server may refuse a request before it
// has read the whole body.
class CallSession final : public HttpCall, public std::enable_shared_from_this<CallSession> {
 public:
  CallSession(asio::io_context& io, HttpCallRequest request, HttpCallEvents events)
      : request_(std::move(request)),
        events_(std::make_shared<const HttpCallEvents>(std::move(events))),
        resolver_(io),
        stream_(io),
        silence_(io) {}

  void start() {
    expect_bytes();
    error_code error;
    const asio::ip::address address = asio::ip::make_address(request_.server.host, error);
    if (!error) return connect({Tcp::endpoint(address, request_.server.port)});
    resolver_.async_resolve(
        request_.server.host, std::to_string(request_.server.port),
        [self = shared_from_this()](const error_code& failed, const Tcp::resolver::results_type& results) {
          if (failed) return self->end(network_fault(failed));
          std::vector<Tcp::endpoint> endpoints;
          for (const auto& entry : results) endpoints.push_back(entry.endpoint());
          self->connect(std::move(endpoints));
        });
  }

  // Resets the connection, because the server would take a plain end for one of this direction only.
  void cancel() override {
    events_.reset();
    error_code ignored;
    stream_.socket().set_option(asio::socket_base::linger(true, 0), ignored);
    close();
  }

 private:
  void connect(std::vector<Tcp::endpoint> endpoints) {
    if (is_closed_) return;
    endpoints_ = std::move(endpoints);
    stream_.async_connect(endpoints_,
                          [self = shared_from_this()](const error_code& error, const Tcp::endpoint&) {
                            if (error) return self->end(network_fault(error));
                            error_code ignored;
                            self->stream_.socket().set_option(Tcp::no_delay(true), ignored);
                            self->write();
                            self->read_head();
                          });
  }

  void write() {
    head_ = fmt::format("{} {} HTTP/1.1\r\n", request_.head.method, request_.head.target);
    for (const auto& [name, value] : request_.head.headers) head_ += fmt::format("{}: {}\r\n", name, value);
    const std::string empty;
    const std::string& rest = request_.rest_of_body ? *request_.rest_of_body : empty;
    const std::size_t length = request_.begin_of_body.size() + rest.size();
    if (length > 0 || request_.head.method == "POST") head_ += fmt::format("Content-Length: {}\r\n", length);
    head_ += "Connection: close\r\n\r\n";
    const std::array<asio::const_buffer, 3> buffers = {
        asio::buffer(head_), asio::buffer(request_.begin_of_body), asio::buffer(rest)};
    // A failure shows in the response, too.
    asio::async_write(stream_, buffers, [self = shared_from_this()](const error_code&, std::size_t) {});
  }

  void read_head() {
    parser_.header_limit(kHeadBytes);
    // Boost 1.74 takes boost::none for a limit of 0.
    parser_.body_limit(std::numeric_limits<std::uint64_t>::max());
    parser_.skip(request_.head.method == "HEAD");
    http::async_read_header(
        stream_, buffer_, parser_,
        [self = shared_from_this()](const error_code& error, std::size_t) { self->on_head(error); });
  }

  void on_head(const error_code& error) {
    if (is_closed_) return;
    if (error) return end(network_fault(error));
    HttpHeaders headers;
    for (const auto& field : parser_.get()) {
      headers.emplace_back(lower_case({field.name_string().data(), field.name_string().size()}),
                           std::string(field.value().data(), field.value().size()));
    }
    if (const auto events = events_; events && events->on_head)
      events->on_head(static_cast<int>(parser_.get().result_int()), headers);
    read_on();
  }

  void read_on() {
    if (is_closed_) return;
    if (parser_.is_done()) return end("");
    expect_bytes();
    auto& body = parser_.get().body();
    body.data = piece_.data();
    body.size = piece_.size();
    body.more = true;
    http::async_read_some(
        stream_, buffer_, parser_,
        [self = shared_from_this()](const error_code& error, std::size_t) { self->on_read(error); });
  }

  void on_read(const error_code& error) {
    if (is_closed_) return;
    const std::size_t size = piece_.size() - parser_.get().body().size;
    if (const auto events = events_; size > 0 && events && events->on_piece)
      events->on_piece({piece_.data(), size});
    if (is_closed_) return;
    if (error && error != http::error::need_buffer) return end(network_fault(error));
    read_on();
  }

  void expect_bytes() {
    if (request_.silence.count() == 0) return;
    silence_.expires_after(request_.silence);
    silence_.async_wait([weak = weak_from_this()](const error_code& error) {
      const auto self = weak.lock();
      if (!error && self) self->end("no answer in time");
    });
  }

  void end(const std::string& error) {
    if (is_closed_) return;
    close();
    const auto events = std::exchange(events_, nullptr);
    if (events && events->on_end) events->on_end(error);
  }

  void close() {
    is_closed_ = true;
    silence_.cancel();
    resolver_.cancel();
    stream_.close();
  }

  HttpCallRequest request_;
  std::shared_ptr<const HttpCallEvents>
      events_;  // null after the end; callers hold it, as an event may cancel the call
  Tcp::resolver resolver_;
  std::vector<Tcp::endpoint> endpoints_{};
  beast::tcp_stream stream_;
  asio::steady_timer silence_;
  beast::flat_buffer buffer_{kHeadBytes + kPieceBytes};
  http::response_parser<http::buffer_body> parser_{};
  std::vector<char> piece_ = std::vector<char>(kPieceBytes);
  std::string head_{};
  bool is_closed_ = false;
};

}  // namespace

std::shared_ptr<HttpCall> HttpServer::call(HttpCallRequest request, HttpCallEvents events) {
  const auto session = std::make_shared<CallSession>(*impl_->io_, std::move(request), std::move(events));
  post([session] { session->start(); });
  return session;
}

bool is_wildcard(std::string_view host) { return host == "0.0.0.0" || host == "::"; }

std::string usable_url(const std::string& host, std::uint16_t port) {
  char machine[256] = "localhost";
  const bool is_any = is_wildcard(host);
  if (is_any) ::gethostname(machine, sizeof(machine) - 1);
  const bool is_ipv6 = !is_any && host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}", is_any ? machine : is_ipv6 ? fmt::format("[{}]", host) : host, port);
}

// Connecting a UDP socket sends nothing.
std::string local_address_towards(const HttpUrl& server) {
  try {
    asio::io_context io;
    asio::ip::udp::resolver resolver(io);
    asio::ip::udp::socket socket(io);
    asio::connect(socket, resolver.resolve(server.host, std::to_string(server.port)));
    return socket.local_endpoint().address().to_string();
  } catch (const boost::system::system_error& error) {
    throw_error<ConfigError>("cannot find a way to {} port {}: {}", server.host, server.port,
                             network_fault(error.code()));
  }
}

HttpUrl parse_http_url(const std::string& text) {
  HttpUrl url;
  constexpr std::string_view kScheme = "http://";
  const std::size_t slash = std::min(text.find('/', kScheme.size()), text.size());
  std::string authority =
      text.starts_with(kScheme) ? text.substr(kScheme.size(), slash - kScheme.size()) : "";
  if (slash < text.size()) url.path = text.substr(slash);
  const std::size_t colon =
      authority.find(':', authority.find(']') == authority.npos ? 0 : authority.find(']'));
  bool is_valid = !authority.empty();
  if (colon != authority.npos) {
    const char* const end = authority.data() + authority.size();
    const auto [rest, error] = std::from_chars(authority.data() + colon + 1, end, url.port);
    is_valid = is_valid && error == std::errc() && rest == end;
    authority.resize(colon);
  }
  if (authority.starts_with('[') && authority.ends_with(']'))
    authority = authority.substr(1, authority.size() - 2);
  require<ConfigError>(is_valid && !authority.empty(),
                       "expected a URL of the form http://HOST:PORT/PATH, found {}", text);
  url.host = std::move(authority);
  return url;
}

}  // namespace tp
