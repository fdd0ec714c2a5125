// A client's request, kept until its answer is complete, and the answer so far.
#pragma once

#include "runtime/api/api_error.h"
#include "runtime/api/record.h"
#include "runtime/gateway/marked_stream.h"
#include "runtime/gateway/request_members.h"
#include "runtime/http/http_call.h"
#include "runtime/http/http_exchange.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tp {

// The record of an answer that begins now: the current time, a random id and a random seed.
Record new_record();

// The response for an error of the gateway's own, in the format of the request's API.
HttpResponse error_response(const HttpRequest& request, const ApiError& error, HttpHeaders headers = {});

class KeptRequest {
 public:
  // `body`: the exchange's body, whose members are `members`. `own_headers`: headers of responses that are
  // not the server's. They also come with the server's responses, which may lack them. `is_checked`: the
  // gateway has checked the request's host and origin.
  KeptRequest(std::shared_ptr<HttpExchange> exchange, std::string body, const RequestMembers& members,
              HttpHeaders own_headers, bool is_checked);

  // The request for a server that accepts the secret.
  HttpCallRequest call_request(const HttpUrl& server, const std::string& secret) const;

  // The server's response: its head, and the pieces of its body.
  enum class Progress : std::uint8_t {
    none,
    token,   // the record has grown
    answer,  // the client has the whole answer
    later,   // the job is too busy to continue the answer; the request must be sent again later
    lost,    // the job ends; the request must be sent again
  };
  Progress on_head(int status, const HttpHeaders& headers);
  Progress on_piece(std::string_view piece);
  Progress on_end(const std::string& error);

  // Forgets the response of a job that has ended, but not the record.
  void forget_response();
  // Ends the request with an error of the gateway's own.
  void fail(const ApiError& error);
  // Sends a comment to the client of a stream, so that proxies keep the connection open while it waits.
  // Begins the stream if necessary. Does nothing for other answers.
  void keep_alive();
  // Tells the client that the rest of the answer may differ from an undisturbed run's.
  void note_inexact();

  // Whether the request only reads something, so that it need not wait for a suspect.
  bool is_light() const { return exchange_->request().method != "POST"; }
  bool has_begun() const { return !marks_.empty() || record_.begun; }
  std::size_t bytes() const { return body_->size() + marks_.size(); }
  HttpExchange& exchange() { return *exchange_; }
  const HttpRequest& request() const { return exchange_->request(); }

  // The dispatcher's own data.
  using Clock = std::chrono::steady_clock;
  Clock::time_point came = Clock::now();
  Clock::time_point waits_since = came;   // without a call
  Clock::time_point last_comment = came;  // time of the last comment
  bool waits_for_start = false;           // no job was ready when the request came, and none has got it
  std::shared_ptr<HttpCall> call{};       // set while a job has the request
  std::size_t tokens_before = 0;          // tokens when the job got the request
  std::size_t deaths = 0;                 // jobs in a row that died with the request, and gave it no token
  std::string model{};                    // model that the first tokens come from
  std::string appended{};                 // text to add to the answer's body
  std::function<void(const ApiError& error)> on_failed{};  // fail() calls it

  std::size_t tokens() const { return tokens_; }

 private:
  Progress take(std::string_view piece, std::string_view mark);
  HttpResponse response(std::string body) const;
  void send_error(const ApiError& error);

  std::shared_ptr<HttpExchange> exchange_;
  HttpHeaders own_headers_;
  bool is_checked_;
  std::shared_ptr<const std::string> body_;
  bool generates_ = false;  // the answer has tokens, and thus a record
  Record record_{};
  std::string marks_{};  // marks of all tokens, each followed by a comma
  std::size_t tokens_ = 0;
  bool wants_stream_ = false;
  bool streams_ = false;  // the client has the head of a stream

  // The response of the current job.
  int status_ = 0;
  std::string content_type_{};
  HttpHeaders headers_{};  // headers for the client
  bool is_marked_ = false;
  bool is_whole_ = false;  // marked, but the client gets a whole answer
  std::string content_{};  // body of a response without marks
  MarkedStream stream_;
  std::string outgoing_{};  // pieces of the stream to be written together
};

}  // namespace tp
