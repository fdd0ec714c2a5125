#include "launch/version_text.h"

#include "launch/commit.h"
#include "tp/version.h"

#include <string_view>

#include <fmt/format.h>

namespace tp {

std::string version_text() {
  const std::string_view commit = kCommit;
  return commit.empty() ? fmt::format("tp-infer {}", kVersion)
                        : fmt::format("tp-infer {} ({})", kVersion, commit);
}

}  // namespace tp
