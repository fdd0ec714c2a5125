#include "launch/generate/request_source.h"

#include "launch/options/prompts.h"
#include "runtime/api/batch_line.h"
#include "tp/internal/require.h"

#include <filesystem>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace tp {
namespace {

constexpr const char* kStdin = "-";

bool is_blank(const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; }

std::string where(const std::string& path, std::size_t line) {
  return fmt::format("{}:{}", name_of_input(path), line);
}

ApiRequest read_line(const std::string& line, const std::string& path, std::size_t number) {
  return read_batch_line(line, where(path, number));
}

// Whether the path is a pipe or a device, which can be read only once.
bool is_stream(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_other(path, ignored);
}

// Returns a descriptor that stays open until the program ends.
int open_batch(const std::string& path) {
  const int descriptor = path == kStdin ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require<RequestError>(descriptor >= 0,
                        "cannot read {}: expected a file; check the path and its permissions", path);
  return descriptor;
}

ApiRequest failed_line(std::string where, std::string error) {
  return {.facts = {.where = std::move(where)}, .error = std::move(error)};
}

void require_requests(bool has_any, const std::string& path) {
  require<RequestError>(has_any, "{}: no requests; expected one JSON object per line", name_of_input(path));
}

}  // namespace

RequestSource::RequestSource(std::string path) : path_(std::move(path)), input_(open_batch(path_)) {}

// An error in a line, including a lack of memory for it, ends only this line's request.
std::optional<ApiRequest> RequestSource::take_request() {
  try {
    while (true) {
      ++line_;
      const std::optional<std::string> line = input_.take_line();
      if (!line) break;
      if (!is_blank(*line)) return read_line(*line, path_, line_);
    }
    --line_;
    return std::nullopt;
  } catch (const RequestError& error) {
    return failed_line(where(path_, line_), error.what());
  } catch (const std::bad_alloc&) {
    return failed_line(where(path_, line_), "out of memory for the line; shorten it");
  }
}

std::optional<ApiRequest> RequestSource::next(bool wait) {
  while (true) {
    if (std::optional<ApiRequest> request = take_request()) {
      has_had_any_ = true;
      return request;
    }
    if (input_.ended()) {
      require_requests(has_had_any_, path_);
      return std::nullopt;
    }
    if (!input_.fill(wait ? -1 : 0) && !wait && !input_.ended()) return std::nullopt;
  }
}

std::size_t count_requests(const std::string& path, const std::function<void(const ApiRequest&)>& use) {
  if (path == kStdin || is_stream(path)) return 0;
  std::size_t requests = 0;
  for_each_line_of(path, [&](const std::string& line, std::size_t number) {
    ++requests;
    if (use) use(read_line(line, path, number));
  });
  require_requests(requests > 0, path);
  return requests;
}

}  // namespace tp
