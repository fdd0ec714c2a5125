#include "launch/common/version_text.h"

#include "launch/common/commit.h"
#include "tp/version.h"

#include <string_view>

#include <fmt/format.h>

namespace tp {

std::string_view commit_text() { return kCommit; }

std::string version_text() {
  const std::string_view commit = commit_text();
  return commit.empty() ? fmt::format("tp-infer {}", kVersion)
                        : fmt::format("tp-infer {} ({})", kVersion, commit);
}

}  // namespace tp
