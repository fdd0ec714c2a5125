#include "model/weights/checkpoint/file_notices.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace tp {
namespace {

std::mutex mutex;
std::vector<std::string> notices;

}  // namespace

void note_about_file(std::string notice) {
  const std::lock_guard lock(mutex);
  if (std::ranges::find(notices, notice) == notices.end()) notices.push_back(std::move(notice));
}

std::vector<std::string> take_file_notices() {
  const std::lock_guard lock(mutex);
  return std::exchange(notices, {});
}

}  // namespace tp
