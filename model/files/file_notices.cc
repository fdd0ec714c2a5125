#include "model/files/file_notices.h"

#include "model/files/printable.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

std::mutex mutex;
std::vector<std::string> notices;

}  // namespace

void note_about_file(std::string notice) {
  const std::lock_guard lock(mutex);
  if (notices.size() < kMaxFileNotices && std::ranges::find(notices, notice) == notices.end())
    notices.push_back(std::move(notice));
}

void note_repeated_key(const std::string& file, const std::string& key) {
  note_about_file(
      fmt::format("{}: an object has the key {} twice; its last value counts", file, printable(key)));
}

std::vector<std::string> take_file_notices() {
  const std::lock_guard lock(mutex);
  return std::exchange(notices, {});
}

}  // namespace tp
