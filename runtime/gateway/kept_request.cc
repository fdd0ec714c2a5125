#include "runtime/gateway/kept_request.h"

#include "model/files/parse_number.h"
#include "runtime/api/answer_format.h"
#include "tp/error.h"
#include "tp/request.h"

#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

constexpr std::size_t kMaxPiece = std::size_t{256} << 20;  // bytes

// Headers that belong to a connection, or that the gateway or the HTTP room writes.
bool is_passed_on(std::string_view name) {
  constexpr std::string_view kOwn[] = {
      "connection", "keep-alive",     "transfer-encoding", "te",    "trailer", "upgrade", "expect",
      "date",       "content-length", "proxy-connection",  "server"};
  return std::ranges::find(kOwn, name) == std::end(kOwn) && !name.starts_with("tp-");
}

// Paths with and without /v1.
bool generates_text(const HttpRequest& request) {
  std::string_view path = request.path();
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  return request.method == "POST" && (path == "/chat/completions" || path == "/completions" ||
                                      path == "/responses" || path == "/messages");
}

bool is_anthropic(const HttpRequest& request) {
  return expects_anthropic_errors(request.path(), request.header("anthropic-version"));
}

// The last event of a stream.
std::string error_event(const HttpRequest& request, const ApiError& error) {
  if (is_anthropic(request)) return make_messages_format()->error_event(error);
  if (request.path().ends_with("/responses")) return make_responses_format()->error_event(error);
  return sse_event(openai_error(error));
}

// The error of a server that refuses a request whose client already has the head of a stream. `has_begun`:
// the client has a part of the answer, too.
ApiError refusal_in(int status, const std::string& body, bool has_begun) {
  ApiError error{.status = status, .message = fmt::format("the server refused with status {}", status)};
  const nlohmann::json json = nlohmann::json::parse(body, nullptr, false);
  const auto found = json.find("error");
  const auto member = [&](const char* name) {
    if (found == json.end() || !found->is_object()) return std::string();
    const auto text = found->find(name);
    return text != found->end() && text->is_string() ? text->get<std::string>() : std::string();
  };
  if (const std::string message = member("message"); !message.empty()) error.message = message;
  error.param = member("param");
  error.code = member("code");
  if (has_begun) error.message = "the answer cannot be continued: " + error.message;
  return error;
}

}  // namespace

Record new_record() {
  std::random_device random;
  return {.id = fmt::format("{:08x}{:08x}{:08x}", random(), random(), random()),
          .created = static_cast<std::int64_t>(std::time(nullptr)),
          .seed = draw_seed()};
}

HttpResponse error_response(const HttpRequest& request, const ApiError& error, HttpHeaders headers) {
  HttpResponse response{.status = error.status,
                        .body = json_text(error_body(is_anthropic(request), error)),
                        .headers = std::move(headers)};
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.retry_after)
    response.headers.emplace_back("Retry-After", fmt::format("{:.0f}", std::max(1.0, *error.retry_after)));
  return response;
}

KeptRequest::KeptRequest(std::shared_ptr<HttpExchange> exchange, std::string body,
                         const RequestMembers& members, HttpHeaders own_headers, bool is_checked)
    : exchange_(std::move(exchange)),
      own_headers_(std::move(own_headers)),
      is_checked_(is_checked),
      body_(std::make_shared<const std::string>(std::move(body))),
      generates_(generates_text(exchange_->request())),
      record_(new_record()),
      wants_stream_(generates_ && members.stream),
      stream_(kMaxPiece) {}

HttpCallRequest KeptRequest::call_request(const HttpUrl& server, const std::string& secret) const {
  const HttpRequest& from_client = exchange_->request();
  HttpCallRequest request{.server = server,
                          .head = {.method = from_client.method, .target = from_client.target},
                          .rest_of_body = body_};
  HttpHeaders& headers = request.head.headers;
  for (const auto& header : from_client.headers) {
    if (is_passed_on(header.first)) headers.push_back(header);
  }
  headers.emplace_back(gateway_header::kSecret, secret);
  headers.emplace_back(gateway_header::kClient, from_client.client);
  if (is_checked_) {
    const bool has_key = !from_client.user.empty();
    headers.emplace_back(gateway_header::kUser, has_key ? from_client.user : gateway_header::kNobody);
  }
  if (!generates_) return request;
  request.begin_of_body = record_text(record_, marks_);
  headers.emplace_back(gateway_header::kRecordBytes, std::to_string(request.begin_of_body.size()));
  return request;
}

KeptRequest::Progress KeptRequest::on_head(int status, const HttpHeaders& headers) {
  status_ = status;
  for (const auto& [name, value] : headers) {
    if (name == gateway_header::kLost) return Progress::lost;
    if (name == gateway_header::kMarks) {
      is_marked_ = true;
      is_whole_ = value == "whole";
    } else if (name == "content-type") {
      content_type_ = value;
    } else if (is_passed_on(name)) {
      headers_.emplace_back(name, value);
    }
  }
  if (is_marked_ && !is_whole_ && !std::exchange(streams_, true)) exchange_->begin_stream(response(""));
  return Progress::none;
}

KeptRequest::Progress KeptRequest::on_piece(std::string_view piece) {
  if (!is_marked_) {
    content_ += piece;
    return Progress::none;
  }
  Progress progress = Progress::none;
  try {
    stream_.add(piece, [&](std::string_view part, std::string_view mark) {
      progress = std::max(progress, take(part, mark));
      return progress < Progress::answer;
    });
  } catch (const Error& error) {
    fail({.status = 500, .message = error.what()});
    return Progress::answer;
  }
  if (!outgoing_.empty()) exchange_->write(std::exchange(outgoing_, {}));
  if (progress == Progress::answer && streams_) exchange_->end_stream();
  return progress;
}

KeptRequest::Progress KeptRequest::take(std::string_view piece, std::string_view mark) {
  if (mark == "lost") return Progress::lost;
  constexpr std::string_view kWhole = "whole ";
  if (mark.starts_with(kWhole)) {
    if (streams_) {
      fail({.status = 500, .message = "expected a stream from the server, found a whole answer"});
      return Progress::answer;
    }
    status_ = parse_number<int>(mark.substr(kWhole.size())).value_or(500);
    exchange_->respond(
        response(std::string(piece.substr(0, piece.size() - std::min<std::size_t>(2, piece.size())))));
    return Progress::answer;
  }
  outgoing_ += piece;
  if (mark == "end") return Progress::answer;
  record_.begun = record_.begun || !is_whole_;
  if (!mark.starts_with('[')) return Progress::none;
  marks_ += mark;
  marks_ += ',';
  ++tokens_;
  return Progress::token;
}

KeptRequest::Progress KeptRequest::on_end(const std::string& error) {
  constexpr int kTooMany = 429;
  constexpr int kNoRoom = 503;
  if (!error.empty() || is_marked_) return Progress::lost;
  if (has_begun() && (status_ == kTooMany || status_ == kNoRoom)) return Progress::later;
  if (streams_)
    send_error(refusal_in(status_, content_, has_begun()));
  else
    exchange_->respond(response(std::move(content_) + (status_ == 200 ? appended : "")));
  return Progress::answer;
}

HttpResponse KeptRequest::response(std::string body) const {
  HttpHeaders headers = headers_;
  for (const auto& own : own_headers_) {
    const auto is_same = [&](const auto& header) { return header.first == lower_case(own.first); };
    if (std::ranges::none_of(headers, is_same)) headers.push_back(own);
  }
  return {.status = status_,
          .body = std::move(body),
          .content_type = content_type_,
          .headers = std::move(headers)};
}

void KeptRequest::forget_response() {
  call.reset();
  status_ = 0;
  is_marked_ = is_whole_ = false;
  headers_.clear();
  content_type_.clear();
  content_.clear();
  stream_ = MarkedStream(kMaxPiece);
}

void KeptRequest::fail(const ApiError& error) {
  if (on_failed) on_failed(error);
  send_error(error);
}

void KeptRequest::send_error(const ApiError& error) {
  const HttpRequest& request = exchange_->request();
  if (streams_) {
    exchange_->write(error_event(request, error));
    return exchange_->end_stream();
  }
  exchange_->respond(error_response(request, error, own_headers_));
}

void KeptRequest::keep_alive() {
  if (!wants_stream_) return;
  if (!std::exchange(streams_, true)) {
    HttpResponse head{.content_type = "text/event-stream; charset=utf-8", .headers = own_headers_};
    head.headers.emplace_back("Cache-Control", "no-cache");
    head.headers.emplace_back("X-Accel-Buffering", "no");  // stops nginx from buffering events
    exchange_->begin_stream(std::move(head));
  }
  exchange_->write(": the answer waits for its model\n\n");
}

void KeptRequest::note_inexact() {
  if (streams_) exchange_->write(": this answer may differ from an undisturbed run's\n\n");
}

}  // namespace tp
