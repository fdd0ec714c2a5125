// A connection of the HTTP server. Included by http_server.cc and http_session.cc only: Beast is slow to
// compile.
#pragma once

#include "runtime/http/http_exchange.h"
#include "runtime/http/http_server.h"
#include "runtime/http/request_body.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>

namespace tp {

// The server's load, summed over all connections.
struct HttpLoad {
  std::atomic<std::size_t> connections = 0;
  std::atomic<std::size_t> requests = 0;    // see HttpServer::open_requests
  std::atomic<std::size_t> body_bytes = 0;  // bodies that are being read or that no handler has taken
};

// Adds `amount` to one of the numbers of HttpLoad during its lifetime.
class HttpShare {
 public:
  HttpShare() = default;
  HttpShare(std::shared_ptr<HttpLoad> load, std::atomic<std::size_t> HttpLoad::*number, std::size_t amount)
      : load_(std::move(load)), number_(number), amount_(amount) {
    (*load_).*number_ += amount_;
  }
  ~HttpShare() {
    if (load_) (*load_).*number_ -= amount_;
  }
  HttpShare(HttpShare&& other) noexcept
      : load_(std::move(other.load_)), number_(other.number_), amount_(other.amount_) {}
  HttpShare& operator=(HttpShare&& other) noexcept {
    std::swap(load_, other.load_);
    std::swap(number_, other.number_);
    std::swap(amount_, other.amount_);
    return *this;
  }

 private:
  std::shared_ptr<HttpLoad> load_;
  std::atomic<std::size_t> HttpLoad::*number_ = nullptr;
  std::size_t amount_ = 0;
};

// Reads requests and writes responses, one after another. All members run on the server's thread.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  using Tcp = boost::asio::ip::tcp;
  using Error = boost::system::error_code;
  using IoContext = std::shared_ptr<boost::asio::io_context>;

  // `options` must outlive the session.
  HttpSession(Tcp::socket socket, const IoContext& io, const HttpOptions& options,
              std::shared_ptr<HttpLoad> load);
  ~HttpSession() = default;
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  void run() { read_head(options_.limits.header_time); }
  // Answers without reading a request.
  void refuse(int status, std::string_view message);
  void close();
  bool is_writing() const { return !writing_.empty(); }

  // Operations of an exchange. `request` is the number of its request, because a late call may arrive during
  // the next request.
  void respond(std::uint64_t request, HttpResponse response);
  void begin_stream(std::uint64_t request, HttpResponse head);
  void write(std::uint64_t request, std::string_view piece);
  void end_stream(std::uint64_t request);
  void on_abandoned(std::uint64_t request, std::function<void()> callback);
  void dropped(std::uint64_t request);

 private:
  // Every response begins with this text, so its bytes can be sent before the response is known.
  static constexpr std::string_view kVersion = "HTTP/1.1 ";
  enum class State : std::uint8_t { reading, answering, streaming, finishing, closed };

  void read_head(std::chrono::milliseconds time);
  void read_within(std::chrono::milliseconds time);
  void skip_empty_lines();
  void on_head(const Error& error);
  std::optional<std::pair<int, std::string>> fault_of_head() const;
  void continue_with_body();
  void read_body();
  void on_body(const Error& error);
  void handle();
  void on_read_error(const Error& error);
  void refuse_body();
  void watch();
  void look_at_client();
  void look_again_later();
  void probe_client();
  bool is_answering(std::uint64_t request) const { return request == request_ && state_ != State::closed; }
  void send(const HttpResponse& response);
  std::string head_of(const HttpResponse& response, std::optional<std::size_t> length) const;
  void write_more();
  void write_on();
  void on_written(const Error& error, std::size_t written);
  void finish();
  void discard_rest();
  void abandon();

  std::weak_ptr<boost::asio::io_context> io_;
  boost::beast::tcp_stream stream_;
  boost::asio::steady_timer deadline_;  // deadline for reading
  bool timed_out_ = false;
  const HttpOptions& options_;
  std::shared_ptr<HttpLoad> load_;
  HttpShare connection_;
  HttpShare open_request_;  // held while the request is read, then moved to the exchange
  HttpShare body_share_;    // held while the request is read, then moved to the exchange
  std::string client_;
  std::string request_id_;  // the client's id of the current request, or a random one
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<RequestBody>> parser_;
  HttpRequest head_;          // current request without its body
  std::size_t max_body_ = 0;  // limit of the current request's body
  HttpHandler handler_;       // its handler
  State state_ = State::reading;
  std::uint64_t request_ = 0;  // number of the current request
  bool keep_alive_ = false;
  bool is_http_1_0_ = false;
  bool is_head_ = false;   // the method is HEAD
  bool discards_ = false;  // the client may still be sending when the connection ends
  bool watching_ = false;
  std::chrono::milliseconds look_delay_{};  // time until the next look at a client that may have left
  std::chrono::steady_clock::time_point next_probe_{};
  std::size_t probed_ = 0;   // bytes of the response that were sent as probes
  std::string writing_;      // data of the current write
  std::size_t written_ = 0;  // written bytes of `writing_`
  std::string pending_;      // data of the next write
  std::function<void()> abandoned_;
};

}  // namespace tp
