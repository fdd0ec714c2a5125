#include "runtime/http/http_session.h"

#include "runtime/http/network_fault.h"
#include "runtime/http/session_exchange.h"

#include <algorithm>
#include <cerrno>
#include <ctime>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

namespace tp {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::size_t kWriteBytes = std::size_t{64} << 10;  // largest single write; progress shows after it
// Buffer space for chunk framing, in addition to the headers. Beast reads at most this much at a time.
constexpr std::size_t kReadBytes = std::size_t{128} << 10;
constexpr std::size_t kFirstBytes = std::size_t{4} << 10;
constexpr std::size_t kDiscardBytes = std::size_t{64} << 20;
constexpr std::chrono::seconds kDiscardTime{2};

std::string_view view_of(beast::string_view text) { return {text.data(), text.size()}; }

// Shows an IPv4 address for a client that reaches a dual-stack socket by IPv4.
std::string shown(const asio::ip::address& address) {
  const bool is_mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return is_mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string()
                   : address.to_string();
}

HttpRequest head_from(const http::request_header<>& header, const std::string& client) {
  HttpRequest request;
  request.method = view_of(header.method_string());
  request.target = view_of(header.target());
  request.client = client;
  for (const auto& field : header) {
    request.headers.emplace_back(lower_case(view_of(field.name_string())), view_of(field.value()));
  }
  return request;
}

}  // namespace

HttpSession::HttpSession(Tcp::socket socket, const IoContext& io, const HttpOptions& options,
                         std::shared_ptr<HttpLoad> load)
    : io_(io),
      stream_(std::move(socket)),
      deadline_(stream_.get_executor()),
      options_(options),
      load_(std::move(load)),
      connection_(load_, &HttpLoad::connections, 1),
      request_id_(new_request_id()),
      buffer_(options.limits.header_bytes + kReadBytes) {
  Error ignored;
  client_ = shown(stream_.socket().remote_endpoint(ignored).address());
  stream_.socket().set_option(Tcp::no_delay(true), ignored);
  // Keep-alive probes detect clients whose machine disappeared silently.
  stream_.socket().set_option(asio::socket_base::keep_alive(true), ignored);
}

void HttpSession::refuse(int status, std::string_view message) {
  keep_alive_ = false;
  discards_ = true;
  state_ = State::answering;
  open_request_ = HttpShare();
  body_share_ = HttpShare();
  deadline_.cancel();
  send(options_.refuse(head_, status, message));
}

void HttpSession::close() {
  if (state_ == State::closed) return;
  abandon();
  state_ = State::closed;
  open_request_ = HttpShare();
  body_share_ = HttpShare();
  deadline_.cancel();
  Error ignored;
  stream_.socket().shutdown(Tcp::socket::shutdown_both, ignored);
  stream_.close();
}

void HttpSession::read_head(std::chrono::milliseconds time) {
  state_ = State::reading;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(options_.limits.header_bytes));
  max_body_ = options_.limits.body_bytes;
  parser_->body_limit(max_body_);
  read_within(time);
  skip_empty_lines();
}

// Some clients end a body with a line break that does not belong to it (RFC 9112, section 2.2).
void HttpSession::skip_empty_lines() {
  const auto data = buffer_.data();
  const std::string_view seen(static_cast<const char*>(data.data()), data.size());
  buffer_.consume(std::min(seen.find_first_not_of("\r\n"), seen.size()));
  if (buffer_.size() > 0) {
    return http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](const Error& error, std::size_t) { self->on_head(error); });
  }
  stream_.async_read_some(buffer_.prepare(kFirstBytes),
                          [self = shared_from_this()](const Error& error, std::size_t bytes) {
                            self->buffer_.commit(bytes);
                            error ? self->on_head(error) : self->skip_empty_lines();
                          });
}

// Unlike the stream's own timeout, this timeout keeps the connection usable, so that the client can be told.
void HttpSession::read_within(std::chrono::milliseconds time) {
  timed_out_ = false;
  stream_.expires_never();
  deadline_.expires_after(time);
  deadline_.async_wait([weak = weak_from_this()](const Error& error) {
    const auto self = weak.lock();
    if (error || !self || self->state_ != State::reading) return;
    self->timed_out_ = true;
    Error ignored;
    self->stream_.socket().cancel(ignored);
  });
}

void HttpSession::on_head(const Error& error) {
  if (state_ == State::closed) return;
  ++request_;
  request_id_ = new_request_id();
  is_http_1_0_ = false;
  is_head_ = false;
  keep_alive_ = false;
  next_probe_ = {};
  probed_ = 0;
  const auto& header = parser_->get();
  head_ = head_from(header, client_);  // if there is an error, as much as is known
  identify(head_, request_id_);
  if (error) {
    head_.target = split_target(head_.target).path;
    return on_read_error(error);
  }
  is_http_1_0_ = header.version() < 11;
  is_head_ = header.method() == http::verb::head;
  keep_alive_ = parser_->keep_alive();
  if (const auto fault = fault_of_head()) return refuse(fault->first, fault->second);
  head_.target = split_target(head_.target).path;
  HttpDecision decision = options_.route(head_);
  if (const auto* refusal = std::get_if<HttpResponse>(&decision)) {
    discards_ = !parser_->is_done();
    keep_alive_ = keep_alive_ && parser_->is_done();
    state_ = State::answering;
    deadline_.cancel();
    return send(*refusal);
  }
  handler_ = std::get<HttpHandler>(std::move(decision));
  open_request_ = HttpShare(load_, &HttpLoad::requests, 1);
  if (parser_->is_done()) return handle();
  max_body_ = std::min(max_body_, head_.max_body);
  parser_->body_limit(max_body_);  // from here on, for bodies in chunks
  const std::size_t announced = parser_->content_length().value_or(max_body_);
  if (announced > max_body_) return refuse_body();
  if (load_->body_bytes + announced > options_.limits.all_body_bytes)
    return refuse(503, "too many large requests at a time; try again later");
  body_share_ = HttpShare(load_, &HttpLoad::body_bytes, announced);
  continue_with_body();
}

// Refuses heads that proxies and servers may understand differently.
std::optional<std::pair<int, std::string>> HttpSession::fault_of_head() const {
  const auto& header = parser_->get();
  const std::size_t hosts = header.count(http::field::host);
  if (header.version() / 10 != 1) return std::pair(505, "expected HTTP/1.1");
  if (hosts > 1 || (hosts == 0 && !is_http_1_0_)) return std::pair(400, "expected one header Host");
  const std::string authority = split_target(head_.target).authority;
  if (!authority.empty() && authority != head_.header("host"))
    return std::pair(400, "the target and the header Host name different servers");
  if (header.count(http::field::transfer_encoding) == 0) return std::nullopt;
  // The end of the body is unknown if the last coding is another one.
  if (is_http_1_0_ || !parser_->chunked()) return std::pair(400, "expected no Transfer-Encoding but chunked");
  if (!beast::iequals(header[http::field::transfer_encoding], "chunked") ||
      header.count(http::field::transfer_encoding) > 1)
    return std::pair(501, "expected no Transfer-Encoding but chunked; send the body without other codings");
  return std::nullopt;
}

// Clients that announce a large body wait for permission to send it.
void HttpSession::continue_with_body() {
  const auto& header = parser_->get();
  if (is_http_1_0_ || !beast::iequals(header[http::field::expect], "100-continue")) return read_body();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  stream_.expires_after(options_.limits.stall_time);
  asio::async_write(stream_, asio::buffer(kContinue),
                    [self = shared_from_this()](const Error& error, std::size_t) {
                      if (error) return self->close();
                      self->read_body();
                    });
}

void HttpSession::read_body() {
  read_within(options_.limits.body_time);
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](const Error& error, std::size_t) { self->on_body(error); });
}

void HttpSession::on_body(const Error& error) {
  if (state_ == State::closed) return;
  if (error) return on_read_error(error);
  handle();
}

void HttpSession::handle() {
  const IoContext io = io_.lock();
  if (!io) return close();
  state_ = State::answering;
  deadline_.cancel();
  discards_ = false;
  HttpRequest request = head_;
  request.body = std::move(parser_->get().body());
  stream_.expires_never();
  watch();
  handler_(std::make_shared<SessionExchange>(io, shared_from_this(), request_, std::move(request),
                                             std::move(open_request_), std::move(body_share_)));
}

void HttpSession::refuse_body() {
  const auto announced = parser_->content_length();
  refuse(413, fmt::format("expected a body of at most {} bytes for this path and method, found {}; send a "
                          "smaller one",
                          max_body_, announced ? fmt::format("{}", *announced) : "more"));
}

void HttpSession::on_read_error(const Error& error) {
  const bool has_begun = parser_->got_some();
  if (error == http::error::body_limit) return refuse_body();
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return refuse(431, fmt::format("the headers are larger than {} bytes, which is the limit",
                                   options_.limits.header_bytes));
  }
  if (error == boost::system::errc::not_enough_memory) {
    return refuse(
        503, "there is no memory for this request at the moment; try again later, or send a smaller body");
  }
  if (timed_out_ && has_begun) return refuse(408, "the request was not complete in time");
  const bool is_http_error = error.category() == http::make_error_code(http::error::bad_method).category();
  const bool is_end = error == http::error::end_of_stream || error == http::error::partial_message;
  if (!has_begun || !is_http_error || is_end) return close();
  refuse(400, fmt::format("this is not an HTTP/1.1 request: {}", network_fault(error)));
}

void HttpSession::respond(std::uint64_t request, HttpResponse response) {
  if (is_answering(request) && state_ == State::answering) send(response);
}

void HttpSession::send(const HttpResponse& response) {
  state_ = State::finishing;
  pending_ += head_of(response, response.body.size());
  if (!is_head_) pending_ += response.body;
  write_more();
}

void HttpSession::begin_stream(std::uint64_t request, HttpResponse head) {
  if (!is_answering(request) || state_ != State::answering) return;
  state_ = State::streaming;
  if (is_http_1_0_) keep_alive_ = false;  // the end of the connection marks the end of the stream
  pending_ += head_of(head, std::nullopt);
  write_more();
}

void HttpSession::write(std::uint64_t request, std::string_view piece) {
  if (!is_answering(request) || state_ != State::streaming || piece.empty() || is_head_) return;
  if (pending_.size() > options_.limits.unread_bytes) return close();
  pending_ += is_http_1_0_ ? std::string(piece) : fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
  write_more();
}

void HttpSession::end_stream(std::uint64_t request) {
  if (!is_answering(request) || state_ != State::streaming) return;
  state_ = State::finishing;
  if (!is_http_1_0_ && !is_head_) pending_ += "0\r\n\r\n";
  write_more();
}

// The handler has destroyed the exchange.
void HttpSession::dropped(std::uint64_t request) {
  if (!is_answering(request)) return;
  if (state_ == State::answering) send(options_.refuse(head_, 500, "the server has lost this request"));
  if (state_ == State::streaming) close();
}

std::string HttpSession::head_of(const HttpResponse& response, std::optional<std::size_t> length) const {
  const beast::string_view reason =
      http::obsolete_reason(http::int_to_status(static_cast<unsigned>(response.status)));
  std::string head = fmt::format("{}{} {}\r\nServer: tp-infer\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\n",
                                 kVersion, response.status, view_of(reason), fmt::gmtime(std::time(nullptr)));
  if (!response.content_type.empty()) head += fmt::format("Content-Type: {}\r\n", response.content_type);
  head += fmt::format("x-request-id: {0}\r\nrequest-id: {0}\r\n", request_id_);
  for (const auto& [name, value] : response.headers) {
    if (!is_request_id(name)) head += fmt::format("{}: {}\r\n", name, value);
  }
  if (length && response.status != 204) head += fmt::format("Content-Length: {}\r\n", *length);
  if (!length && !is_http_1_0_) head += "Transfer-Encoding: chunked\r\n";
  head += keep_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head.substr(probed_);
}

// Starts to write the pending data, unless a write is in progress. Data that piles up for a slow client is
// sent together.
void HttpSession::write_more() {
  if (is_writing()) return;
  if (pending_.empty()) {
    if (state_ == State::finishing) finish();
    return;
  }
  writing_.swap(pending_);
  written_ = 0;
  write_on();
}

void HttpSession::write_on() {
  const std::size_t bytes = std::min(kWriteBytes, writing_.size() - written_);
  stream_.expires_after(options_.limits.stall_time);
  asio::async_write(stream_, asio::buffer(writing_.data() + written_, bytes),
                    [self = shared_from_this()](const Error& error, std::size_t written) {
                      self->on_written(error, written);
                    });
}

void HttpSession::on_written(const Error& error, std::size_t written) {
  if (state_ == State::closed) return writing_.clear();
  if (error) return close();
  written_ += written;
  if (written_ < writing_.size()) return write_on();
  writing_.clear();
  stream_.expires_never();
  write_more();
}

void HttpSession::finish() {
  abandoned_ = nullptr;
  if (keep_alive_) return read_head(options_.limits.idle_time);
  if (discards_) return discard_rest();
  close();
}

// Closing a connection with unread data would destroy the response in transit.
void HttpSession::discard_rest() {
  Error ignored;
  stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
  stream_.expires_after(kDiscardTime);
  auto left = std::make_shared<std::size_t>(kDiscardBytes);
  auto scratch = std::make_shared<std::string>(kWriteBytes, '\0');
  auto read = std::make_shared<std::function<void()>>();
  *read = [self = shared_from_this(), left, scratch, again = std::weak_ptr(read)] {
    const auto keep = again.lock();
    self->stream_.async_read_some(asio::buffer(*scratch),
                                  [self, left, keep](const Error& error, std::size_t bytes) {
                                    if (error || bytes >= *left) return self->close();
                                    *left -= bytes;
                                    (*keep)();
                                  });
  };
  (*read)();
}

}  // namespace tp
