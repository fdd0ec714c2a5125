#pragma once

#include "launch/hub/download_error.h"

#include <chrono>
#include <functional>
#include <string>

namespace tp {

// How long to wait before the next attempt, and when to give up: after five in a row that failed, with
// 1, 2, 4 and 8 seconds between them, or as the server wants it.
class Retries {
 public:
  using Sleep = std::function<void(std::chrono::seconds)>;
  // Told before each wait, so that a user knows why nothing happens.
  using Notify = std::function<void(const std::string&)>;

  // `what` is what errors begin with: "cannot fetch org/name/config.json".
  Retries(std::string what, Sleep sleep, Notify notify);

  // Waits. Throws DownloadError if there were enough attempts, or if the server wants to be left alone for
  // longer than a user would watch.
  void wait(const TransientError& failure);

  // What failed so far does not count any more.
  void progressed() { failed_ = 0; }

 private:
  std::string what_;
  Sleep sleep_;
  Notify notify_;
  int failed_ = 0;
};

}  // namespace tp
