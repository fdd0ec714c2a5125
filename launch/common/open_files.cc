#include "launch/common/open_files.h"

#include <algorithm>

#include <sys/resource.h>

namespace tp {

// The default limit is 1024.
std::size_t allow_many_connections(std::size_t wanted, std::size_t per_connection) {
  constexpr rlim_t kOthers = 48;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return wanted;
  const rlim_t files = limit.rlim_cur > 2 * kOthers ? limit.rlim_cur - kOthers : kOthers;
  return std::min<std::size_t>(wanted, files / per_connection);
}

}  // namespace tp
