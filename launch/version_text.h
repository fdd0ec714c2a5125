#pragma once

#include <string>

namespace tp {

// "tp-infer 0.1.0 (1a2b3c4d5)": the version, and the commit it was built from, if known.
std::string version_text();

}  // namespace tp
