#include "parallel/machine/error_text.h"

#include <new>
#include <stdexcept>
#include <system_error>

namespace tp {
namespace {

constexpr const char* kNoThread =
    "cannot start a thread: expected room for one more, found a limit of memory or threads; raise the limit "
    "(ulimit -v, ulimit -u)";

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const std::length_error*>(&error) != nullptr;
}

const char* error_text(const std::exception& error) {
  if (is_out_of_memory(error)) return kRankOutOfMemory;
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  const bool is_no_thread = system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
  return is_no_thread ? kNoThread : error.what();
}

}  // namespace tp
