// The errors of tp-infer. A text has four parts: what cannot be done, what was expected, what was found,
// and what to do about it. No library code aborts or exits; launch/main.cc turns an error into exit status 1.
#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace tp {

// The base of all errors that a user can cause or meet.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Options, a config.json or a combination of them that cannot work.
class ConfigError : public Error {
 public:
  using Error::Error;
};

// A file of a checkpoint that is missing, truncated or not what the config says.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

// Communication between ranks failed, or the ranks disagree.
class CommError : public Error {
 public:
  using Error::Error;
};

// One request that cannot be served, say a prompt that is too long. It ends the request, not the program.
class RequestError : public Error {
 public:
  using Error::Error;
};

// throw_error<ConfigError>("cannot start {} ranks: ...", n): formats and throws.
template <class E, class... Args>
[[noreturn]] void throw_error(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

// Throws E with the formatted text unless `condition` holds.
template <class E, class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tp
