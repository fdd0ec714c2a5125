#pragma once

#include "launch/input_buffer.h"
#include "runtime/api/api_request.h"

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Where requests come from, one after the other: all are known, or they are lines of standard input that
// may still be being written.
class RequestSource {
 public:
  explicit RequestSource(std::vector<ApiRequest> known);
  // The lines of standard input, which are read as they come.
  static RequestSource standard_input();

  // The next request. If there is none yet, waits for it or returns nothing, as `wait` says; nothing as well
  // at the end. Throws RequestError where standard input ends without a single line.
  std::optional<ApiRequest> next(bool wait);

 private:
  RequestSource() = default;
  // The next line that has come and is not blank.
  std::optional<ApiRequest> take_request();

  std::deque<ApiRequest> known_;
  std::optional<InputBuffer> input_;
  std::size_t line_ = 0;  // its number
  bool has_had_any_ = false;
};

// The requests in a file of JSON lines, in order; blank lines are left out, and a line that is no request has
// an error. Throws RequestError if the file cannot be read or has no lines at all.
std::vector<ApiRequest> read_batch(const std::string& path);

}  // namespace tp
