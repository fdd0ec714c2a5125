#pragma once

#include "tp/error.h"

#include <chrono>
#include <optional>
#include <string>

namespace tp {

// A download that can't succeed with the given arguments.
class DownloadError : public Error {
 public:
  using Error::Error;
};

// An error that another attempt may avoid: a broken connection, a busy server. The text describes the
// finding.
class TransientError : public DownloadError {
 public:
  explicit TransientError(const std::string& found,
                          std::optional<std::chrono::seconds> retry_after = std::nullopt)
      : DownloadError(found), retry_after_(retry_after) {}

  // The delay that the server asked for, if any.
  std::optional<std::chrono::seconds> retry_after() const { return retry_after_; }

 private:
  std::optional<std::chrono::seconds> retry_after_;
};

}  // namespace tp
