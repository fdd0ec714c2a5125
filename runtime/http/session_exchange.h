// The handler's view of a connection: an exchange that may be used from any thread, because every call is
// posted to the server's thread. Included by http_session.cc only.
#pragma once

#include "runtime/http/http_session.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <boost/asio/post.hpp>

namespace tp {

class SessionExchange final : public HttpExchange {
 public:
  SessionExchange(HttpSession::IoContext io, std::shared_ptr<HttpSession> session, std::uint64_t number,
                  HttpRequest request, HttpShare open, HttpShare body)
      : io_(std::move(io)),
        session_(std::move(session)),
        number_(number),
        request_(std::move(request)),
        open_(std::move(open)),
        body_(std::move(body)) {}

  ~SessionExchange() override {
    boost::asio::post(*io_, [session = std::move(session_), number = number_] { session->dropped(number); });
  }

  const HttpRequest& request() const override { return request_; }

  std::string take_body() override {
    body_ = HttpShare();
    return std::exchange(request_.body, {});
  }

  void respond(HttpResponse response) override {
    post([response = std::move(response)](HttpSession& session, std::uint64_t number) mutable {
      session.respond(number, std::move(response));
    });
  }

  void begin_stream(HttpResponse head) override {
    post([head = std::move(head)](HttpSession& session, std::uint64_t number) mutable {
      session.begin_stream(number, std::move(head));
    });
  }

  void write(std::string piece) override {
    post([piece = std::move(piece)](HttpSession& session, std::uint64_t number) {
      session.write(number, piece);
    });
  }

  void end_stream() override {
    post([](HttpSession& session, std::uint64_t number) { session.end_stream(number); });
  }

  void on_abandoned(std::function<void()> callback) override {
    post([callback = std::move(callback)](HttpSession& session, std::uint64_t number) mutable {
      session.on_abandoned(number, std::move(callback));
    });
  }

 private:
  // A response may be large. If there is no memory to send it, only its connection ends.
  template <class Call>
  void post(Call call) {
    boost::asio::post(*io_, [session = session_, number = number_, call = std::move(call)]() mutable {
      try {
        call(*session, number);
      } catch (const std::bad_alloc&) {
        session->close();
      }
    });
  }

  HttpSession::IoContext io_;  // outlives the session
  std::shared_ptr<HttpSession> session_;
  std::uint64_t number_;
  HttpRequest request_;
  HttpShare open_;
  HttpShare body_;
};

}  // namespace tp
