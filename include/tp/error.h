// The errors of tp-infer. A text has four parts: what cannot be done, what was expected, what was found,
// and what to do about it; options are named as the fields that they are, in backquotes. No library code
// aborts or exits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tp {

// What an error is about, for programs that answer somebody else: a server makes a status code of it.
enum class ErrorKind : std::uint8_t {
  config,           // options, or a config.json, that cannot work
  checkpoint,       // a file of the model is missing, damaged or not what the config says
  communication,    // MPI failed, or the ranks disagree
  lost_rank,        // a step broke off: the engine cannot go on, and neither can the other ranks
  out_of_memory,    // of a rank
  invalid_request,  // a request that can never be served
  too_long,         // a request with more tokens than a sequence or the cache holds
  overloaded,       // a request that there is no memory for at the moment
  other,
};

// The base of all errors that a user can cause or meet.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual ErrorKind kind() const noexcept { return ErrorKind::other; }
};

// Options, a config.json or a combination of them that cannot work.
class ConfigError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::config; }
};

// A file of a checkpoint that is missing, truncated or not what the config says.
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

// An error in the middle of a step: the other ranks wait inside a collective and cannot be told, only ended.
class LockstepError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::lost_rank; }
};

// An error that every rank knows of: all ranks throw it, and one of them should report it.
class AgreedError : public Error {
 public:
  AgreedError(const std::string& message, std::size_t rank, ErrorKind kind = ErrorKind::other)
      : Error(message), rank_(rank), kind_(kind) {}
  // The rank on which it happened (the lowest, if it was several).
  std::size_t rank() const noexcept { return rank_; }
  // Of the error that happened there.
  ErrorKind kind() const noexcept override { return kind_; }

 private:
  std::size_t rank_;
  ErrorKind kind_;
};

// One request that cannot be served. It ends the request, not the program.
class RequestError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::invalid_request; }
};

// It has more tokens than a sequence or the cache holds.
class TooLongError : public RequestError {
 public:
  using RequestError::RequestError;
  ErrorKind kind() const noexcept override { return ErrorKind::too_long; }
};

// There is no memory for it at the moment.
class OverloadedError : public RequestError {
 public:
  using RequestError::RequestError;
  ErrorKind kind() const noexcept override { return ErrorKind::overloaded; }
};

}  // namespace tp
