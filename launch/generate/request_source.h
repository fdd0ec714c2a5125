#pragma once

#include "launch/common/input_buffer.h"
#include "runtime/api/api_request.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace tp {

// Reads the requests of a batch from the lines of a file or of standard input, which another program may
// still be writing. Keeps only the next lines in memory.
class RequestSource {
 public:
  // `path`: "-" is standard input. Throws RequestError if the file cannot be read.
  explicit RequestSource(std::string path);

  // Returns the next request. If none has arrived yet, waits for it or returns nothing, depending on `wait`.
  // Returns nothing at the end. Throws RequestError if the whole input has no line.
  std::optional<ApiRequest> next(bool wait);

 private:
  // Returns the next received line that is not blank.
  std::optional<ApiRequest> take_request();

  std::string path_;
  InputBuffer input_;
  std::size_t line_ = 0;  // number of the line
  bool has_had_any_ = false;
};

// Returns the number of requests in a file of JSON lines, or 0 if it is unknown, like for a pipe. Calls `use`
// with each request. An invalid line becomes a request with an error. Throws RequestError if the file can't
// be read or has no requests.
std::size_t count_requests(const std::string& path, const std::function<void(const ApiRequest&)>& use = {});

}  // namespace tp
