#pragma once

#include <cstddef>
#include <functional>
#include <string>

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
  std::string reason{};  // why the answer ended
};

// Writes a line for each request.
class RequestLog {
 public:
  using Sink = std::function<void(const std::string& line)>;

  // `sink` gets lines without their end, from any thread. It may be null.
  RequestLog(Sink sink, bool as_json) : sink_(std::move(sink)), as_json_(as_json) {}
  void add(const LoggedRequest& request) const;

 private:
  Sink sink_;
  bool as_json_;
};

}  // namespace tp
