#pragma once

#include "launch/hub/download_error.h"

#include <chrono>
#include <functional>
#include <string>

namespace tp {

// How long to wait before the next attempt, and when to give up: after five failures in a row, with 1, 2, 4
// and 8 seconds between them, or the delay that the server asks for.
class Retries {
 public:
  using Sleep = std::function<void(std::chrono::seconds)>;
  // Called before each wait, to tell the user the reason.
  using Notify = std::function<void(const std::string&)>;

  // Errors begin with `what`: "cannot fetch org/name/config.json".
  Retries(std::string what, Sleep sleep, Notify notify);

  // Waits. Throws DownloadError after the last attempt, or if the server asks for a longer delay than a user
  // would wait.
  void wait(const TransientError& failure);

  // Forgets earlier failures.
  void progressed() { failed_ = 0; }

 private:
  std::string what_;
  Sleep sleep_;
  Notify notify_;
  int failed_ = 0;
};

}  // namespace tp
