#include "launch/hub/retries.h"

#include "tp/internal/require.h"

#include <algorithm>

namespace tp {

Retries::Retries(std::string what, Sleep sleep, Notify notify)
    : what_(std::move(what)), sleep_(std::move(sleep)), notify_(std::move(notify)) {}

void Retries::wait(const TransientError& failure) {
  constexpr int kAttempts = 5;
  constexpr std::chrono::seconds kLongest(120);
  if (++failed_ == kAttempts) {
    throw_error<DownloadError>(
        "{}: expected an answer within {} attempts, found: {}; try again later (downloaded parts are kept)",
        what_, kAttempts, failure.what());
  }
  const std::chrono::seconds usual(1 << (failed_ - 1));
  const std::chrono::seconds pause = std::max(failure.retry_after().value_or(usual), std::chrono::seconds(0));
  if (pause > kLongest) {
    throw_error<DownloadError>(
        "{}: expected an answer, found: {}, and a server that asks for a pause of {} s; try again then "
        "(downloaded parts are kept)",
        what_, failure.what(), pause.count());
  }
  notify_(fmt::format("{}; next attempt in {} s", failure.what(), pause.count()));
  sleep_(pause);
}

}  // namespace tp
