#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tp {

// A line of the log: never what people wrote or were told.
struct LoggedRequest {
  std::string client{};
  std::string method{};
  std::string path{};
  int status = 0;
  std::string id{};  // of the answer, or the client's own
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;
  std::size_t generated_tokens = 0;
  double queued = 0.0;       // seconds
  double first_token = 0.0;  // seconds since the request
  double total = 0.0;
  std::string param{};                  // the member of the request that was refused
  std::string reason{};                 // why the answer ended
  std::vector<std::string> warnings{};  // as in ApiRequest
};

// Writes a line for each request, on a thread of its own: a log that nobody reads must not stop the server.
// Lines that cannot be kept any more are counted instead.
class RequestLog {
 public:
  using Sink = std::function<void(const std::string& line)>;

  // `sink` gets lines without their end. It may be null.
  RequestLog(const Sink& sink, bool as_json);
  // Gives the sink some time to take what is left.
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
