#include "launch/request_source.h"

#include "launch/prompts.h"
#include "runtime/api/batch_line.h"
#include "tp/internal/require.h"

#include <iterator>
#include <new>
#include <sstream>

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

void require_requests(bool has_any, const std::string& path) {
  require<RequestError>(has_any, "{}: no requests; expected one JSON object a line", name_of_input(path));
}

}  // namespace

RequestSource::RequestSource(std::vector<ApiRequest> known)
    : known_(std::make_move_iterator(known.begin()), std::make_move_iterator(known.end())) {}

RequestSource RequestSource::standard_input() {
  RequestSource source;
  source.input_.emplace();
  return source;
}

// What is wrong with a line, be it only that memory has no room for it, ends the line.
std::optional<ApiRequest> RequestSource::take_request() {
  try {
    while (true) {
      ++line_;
      const std::optional<std::string> line = input_->take_line();
      if (!line) break;
      if (!is_blank(*line)) return read_line(*line, kStdin, line_);
    }
    --line_;
    return std::nullopt;
  } catch (const RequestError& error) {
    return ApiRequest{.where = where(kStdin, line_), .error = error.what()};
  } catch (const std::bad_alloc&) {
    return ApiRequest{.where = where(kStdin, line_), .error = "out of memory for the line; shorten it"};
  }
}

std::optional<ApiRequest> RequestSource::next(bool wait) {
  if (!known_.empty()) {
    ApiRequest request = std::move(known_.front());
    known_.pop_front();
    return request;
  }
  while (input_) {
    if (std::optional<ApiRequest> request = take_request()) {
      has_had_any_ = true;
      return request;
    }
    if (input_->ended()) {
      require_requests(has_had_any_, kStdin);
      return std::nullopt;
    }
    if (!input_->fill(wait ? -1 : 0) && !wait && !input_->ended()) return std::nullopt;
  }
  return std::nullopt;
}

std::vector<ApiRequest> read_batch(const std::string& path) {
  std::istringstream lines(read_prompt_file(path));
  std::vector<ApiRequest> requests;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!is_blank(line)) requests.push_back(read_line(line, path, number));
  }
  require_requests(!requests.empty(), path);
  return requests;
}

}  // namespace tp
