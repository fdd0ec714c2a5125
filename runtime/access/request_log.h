// The log of requests, as the server and the gateway write it.
#pragma once

#include "runtime/http/http_message.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tp {

// A line of the log. It never contains prompts or answers.
struct LoggedRequest {
  std::string client{};
  std::string user{};       // name of the client's key
  std::string model{};      // only in the gateway's lines
  bool by_gateway = false;  // the gateway has answered, not a server
  std::string method{};
  std::string path{};
  int status = 0;
  std::string id{};          // the answer's id
  std::string request_id{};  // as in the header `x-request-id`
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;
  std::size_t generated_tokens = 0;
  double queued = 0.0;       // seconds
  double first_token = 0.0;  // seconds since the request arrived
  double total = 0.0;
  std::string param{};                  // rejected member of the request
  std::string reason{};                 // reason of the answer's end
  std::vector<std::string> warnings{};  // as in ApiCall
};

// The line with the client, user, method, path and id of the request.
LoggedRequest logged(const HttpRequest& request, LoggedRequest line);

// The text of the line, without a line end. Texts of clients cannot imitate its fields.
std::string log_line(const LoggedRequest& request, bool as_json);

// Writes one line per request, on its own thread: a log that nobody reads must not stop the server. Lines
// that exceed the buffer are dropped and counted.
class RequestLog {
 public:
  using Sink = std::function<void(const std::string& line)>;

  // `sink` gets lines without line ends. It may be null.
  RequestLog(const Sink& sink, bool as_json);
  // Gives the sink some time for the remaining lines.
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;

  void add(const LoggedRequest& request) const;

 private:
  struct State;

  std::shared_ptr<State> state_;  // null without a sink
  bool as_json_;
};

}  // namespace tp
