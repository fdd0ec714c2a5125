#include "parallel/processors.h"

#include <algorithm>

#include <sched.h>
#include <unistd.h>

namespace tp {

std::size_t online_processors() {
  return static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

std::size_t allowed_processors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return online_processors();
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&mask)));
}

std::size_t default_threads(std::size_t ranks_on_host) {
  const std::size_t allowed = allowed_processors();
  const std::size_t fair =
      std::max<std::size_t>(1, online_processors() / std::max<std::size_t>(1, ranks_on_host));
  return std::min(allowed, fair);
}

}  // namespace tp
