#pragma once

#include <string>
#include <string_view>

namespace tp {

// Decodes the escapes in a part of a URI: %25 is a percent sign. Other text stays, because not every program
// encodes it.
std::string percent_decoded(std::string_view text);

}  // namespace tp
