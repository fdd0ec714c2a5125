#pragma once

#include "launch/common/input_buffer.h"
#include "runtime/api/api_request.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace tp {

// Reads the requests of a batch from the lines of a file or of standard input, which another program may
// still be writing. Memory holds only the next lines.
class RequestSource {
 public:
  // `path`: "-" is standard input. Throws RequestError if the file cannot be read.
  explicit RequestSource(std::string path);

  // The next request. If there is none yet, waits for it or returns nothing, as `wait` says; nothing as well
  // at the end. Throws RequestError where the input ends without a single line.
  std::optional<ApiRequest> next(bool wait);

 private:
  // The next line that has come and is not blank.
  std::optional<ApiRequest> take_request();

  std::string path_;
  InputBuffer input_;
  std::size_t line_ = 0;  // its number
  bool has_had_any_ = false;
};

// How many requests a file of JSON lines has, 0 if that cannot be known before they come, as from a pipe.
// Calls `use` with each of them, if there is one; a line that is no request has an error. Throws RequestError
// if the file cannot be read or has no requests at all.
std::size_t count_requests(const std::string& path, const std::function<void(const ApiRequest&)>& use = {});

}  // namespace tp
