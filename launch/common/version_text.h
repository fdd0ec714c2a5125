#pragma once

#include "tp/version.h"

#include <string>

#include <fmt/format.h>

namespace tp {

// "tp-infer 0.1.0 (commit 1a2b3c4d5)"
inline std::string version_text() { return fmt::format("tp-infer {} (commit {})", kVersion, build_commit()); }

}  // namespace tp
