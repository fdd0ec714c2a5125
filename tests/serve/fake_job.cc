// A server behind the gateway without a model. It announces itself, and does what a request's body says:
//
//   {"tokens": 5, "delay_ms": 20}   a stream of 5 tokens; "whole": true for a whole answer of them
//   {"die_at": 3}                   ends the process before token 3, counted over all jobs
//   {"stop_at": 3}                  stops answering before token 3, and never continues
//   {"clock": true}                 each token contains the time of its departure, in nanoseconds of the
//   steady clock
//   {"bytes": 1000}                 a whole answer without marks, of so many bytes
//   {"name": true}                  each token contains the job's name, the variable FAKE_NAME
//   {"refuse": 400}                 an error with this status
//
// SIGUSR1 ends it when all requests are answered. The variable FAKE_GROUP names a file that only one job at a
// time may hold; a second one writes to the file, and ends.
#include "model/files/parse_number.h"
#include "runtime/api/record.h"
#include "runtime/gateway/announcement.h"
#include "runtime/http/http_server.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

namespace tp::test {
namespace {

using Json = nlohmann::json;

std::atomic<bool> drains = false;
std::atomic<bool> is_stuck = false;
HttpServer* server = nullptr;

// An answer in progress.
struct Answer {
  std::shared_ptr<HttpExchange> exchange;
  Json wish;
  std::size_t next = 0;  // next token
  bool is_left = false;  // the client has left

  std::size_t tokens() const { return wish.value("tokens", std::size_t{0}); }
  bool is_whole() const { return wish.value("whole", false); }
};

void write(Answer& answer, std::string piece, const std::string& mark) {
  if (answer.is_whole() && mark.starts_with('[')) piece.clear();
  answer.exchange->write(piece + mark_comment(mark));
}

// Returns the job's name as a member of a token.
std::string name_member() {
  const char* const name = std::getenv("FAKE_NAME");
  return fmt::format(",\"name\":\"{}\"", name != nullptr ? name : "");
}

// Locks the group's file until the process ends.
void take_group() {
  const char* const file = std::getenv("FAKE_GROUP");
  if (file == nullptr) return;
  const int descriptor = ::open(file, O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return;
  [[maybe_unused]] const ssize_t written = ::write(descriptor, "two at a time\n", 14);
  std::_Exit(9);
}

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

void go_on(const std::shared_ptr<Answer>& answer) {
  const Json& wish = answer->wish;
  if (is_stuck || answer->is_left) return;
  if (answer->next == wish.value("die_at", SIZE_MAX)) std::_Exit(3);
  if (answer->next == wish.value("stop_at", SIZE_MAX)) {
    is_stuck = true;
    return;
  }
  if (answer->next == answer->tokens()) {
    const std::string end =
        answer->is_whole() ? fmt::format("{{\"tokens\":{}}}\n\n", answer->next) : "data: [DONE]\n\n";
    write(*answer, end, answer->is_whole() ? "whole 200" : "end");
    return answer->exchange->end_stream();
  }
  TokenEvent event;
  event.token = static_cast<TokenId>(answer->next);
  std::string time = wish.value("clock", false) ? fmt::format(",\"t\":{}", now()) : "";
  if (wish.value("name", false)) time += name_member();
  write(*answer, fmt::format("data: {{\"token\":{}{}}}\n\n", answer->next, time), mark_of(0, event));
  ++answer->next;
  server->post_after(std::chrono::milliseconds(wish.value("delay_ms", 0)), [answer] { go_on(answer); });
}

void answer_request(const std::shared_ptr<HttpExchange>& exchange) {
  const HttpRequest& request = exchange->request();
  std::string body = exchange->take_body();
  const std::size_t bytes =
      parse_number<std::size_t>(request.header(gateway_header::kRecordBytes)).value_or(0);
  Record record;
  if (bytes > 0) record = parse_record(std::string_view(body).substr(0, bytes));
  const Json wish = Json::parse(body.substr(bytes), nullptr, false);
  if (wish.is_object() && wish.contains("bytes"))
    return exchange->respond({.body = std::string(wish.at("bytes").get<std::size_t>(), 'x')});
  if (wish.is_object() && wish.contains("refuse"))
    return exchange->respond({.status = wish.at("refuse").get<int>(),
                              .body = R"({"error":{"message":"no, thank you","param":"n","code":"c"}})"});
  if (!wish.is_object() || bytes == 0)
    return exchange->respond({.body = fmt::format("{} bytes", body.size())});
  const auto answer = std::make_shared<Answer>(Answer{exchange, wish, record.tokens.size()});
  if (answer->next == wish.value("die_at", SIZE_MAX)) std::_Exit(3);
  HttpResponse head{.content_type = answer->is_whole() ? "application/json" : "text/event-stream"};
  head.headers.emplace_back(gateway_header::kMarks, answer->is_whole() ? "whole" : "stream");
  exchange->on_abandoned([answer] { answer->is_left = true; });
  exchange->begin_stream(std::move(head));
  go_on(answer);
}

HttpOptions options() {
  HttpOptions options{.port = 0};
  options.limits.body_bytes = std::size_t{100} << 20;
  options.route = [](const HttpRequest& head) -> HttpDecision {
    if (head.path() == "/health") {
      return [](const std::shared_ptr<HttpExchange>& exchange) {
        exchange->respond(
            {.status = drains ? 503 : 200, .body = is_stuck ? R"({"step_seconds":1e6})" : "{}"});
      };
    }
    return answer_request;
  };
  options.refuse = [](const HttpRequest&, int status, std::string_view message) {
    return HttpResponse{.status = status, .body = std::string(message)};
  };
  return options;
}

void announce(const HttpUrl& gateway) {
  const char* const isa = std::getenv("TP_ISA");
  const Announcement announcement{.host = "127.0.0.1",
                                  .port = server->port(),
                                  .process = ::getpid(),
                                  .machine = "here",
                                  .isa = isa != nullptr ? isa : "portable",
                                  .model = "fake",
                                  .ranks = 1,
                                  .origins = {"https://chat.example.com"}};
  server->call({.server = gateway,
                .head = {.method = "POST", .target = gateway.path, .headers = {{"Host", "gateway"}}},
                .begin_of_body = announcement.to_text()},
               {});
}

int run() {
  take_group();
  std::signal(SIGUSR1, [](int) { drains = true; });
  HttpServer own(options());
  server = &own;
  announce(parse_http_url(std::getenv(kAnnounceVariable)));
  while (!drains || own.open_requests() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  own.flush(std::chrono::milliseconds(500));
  return 0;
}

}  // namespace
}  // namespace tp::test

int main() { return tp::test::run(); }
