// The exceptions of tp-infer. Each message has four parts: what cannot be done, what was expected, what was
// found, and what to do about it. Messages refer to options by field name, in backquotes. Library code never
// aborts or exits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tp {

// The category of an error. A server, for example, maps it to an HTTP status code.
enum class ErrorKind : std::uint8_t {
  config,           // unusable options or config.json
  checkpoint,       // a model file is missing, damaged, or inconsistent with the config
  communication,    // MPI failed, or the ranks disagree
  lost_rank,        // a step failed midway; neither the engine nor the other ranks can continue
  out_of_memory,    // a rank ran out of memory
  invalid_request,  // a request that can never be served
  too_long,         // a request with more tokens than fit into a sequence or the cache
  overloaded,       // currently not enough memory for the request, or no room in the queue
  other,
};

// The base class of all errors that users can cause or encounter.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual ErrorKind kind() const noexcept { return ErrorKind::other; }
};

// Invalid options, an invalid config.json, or a combination that cannot work.
class ConfigError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::config; }
};

// A checkpoint file is missing, damaged, or inconsistent with the config.
class CheckpointError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::checkpoint; }
};

// Communication between ranks failed, or the ranks disagree.
class CommError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::communication; }
};

// A step failed midway. The other ranks are waiting inside a collective and can only be aborted.
class LockstepError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::lost_rank; }
};

// An error that all ranks throw together. Only one rank should report it.
class AgreedError : public Error {
 public:
  AgreedError(const std::string& message, std::size_t rank, ErrorKind kind = ErrorKind::other)
      : Error(message), rank_(rank), kind_(kind) {}
  // The rank on which the error occurred; the lowest rank if it occurred on several.
  std::size_t rank() const noexcept { return rank_; }
  // The kind of the original error.
  ErrorKind kind() const noexcept override { return kind_; }

 private:
  std::size_t rank_;
  ErrorKind kind_;
};

// A request that cannot be served. Other requests are not affected.
class RequestError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::invalid_request; }
};

// A request with more tokens than fit into a sequence or the cache.
class TooLongError : public RequestError {
 public:
  using RequestError::RequestError;
  ErrorKind kind() const noexcept override { return ErrorKind::too_long; }
};

// There is currently not enough memory for a request, or no room in the queue.
class OverloadedError : public RequestError {
 public:
  explicit OverloadedError(const std::string& message, double retry_after_seconds = 1.0)
      : RequestError(message), retry_after_seconds_(retry_after_seconds) {}
  // Seconds to wait before the next attempt; see LeaderStatus.
  double retry_after_seconds() const noexcept { return retry_after_seconds_; }
  ErrorKind kind() const noexcept override { return ErrorKind::overloaded; }

 private:
  double retry_after_seconds_;
};

}  // namespace tp
