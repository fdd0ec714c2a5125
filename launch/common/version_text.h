#pragma once

#include <string>
#include <string_view>

namespace tp {

// "tp-infer 0.1.0 (1a2b3c4d5)": the version, and the commit it was built from, if known.
std::string version_text();

// The commit it was built from; empty if that is not known.
std::string_view commit_text();

}  // namespace tp
