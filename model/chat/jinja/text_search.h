// Searches in texts. A template chooses both texts, so the time must not be the product of their sizes, as
// with the searches of std::string_view.
#pragma once

#include "model/chat/jinja/value.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tp::jinja {

// Like std::string_view::find, in linear time.
std::size_t find_text(std::string_view text, std::string_view wanted, std::size_t from = 0);

// The places of `wanted`, which must not be empty, in the order of a search from the left or from the right.
// At most `limit` places; all if it is negative. Occurrences that overlap an earlier one don't count. Spends
// units for the list of places only.
std::vector<std::size_t> places_of(std::string_view wanted, std::string_view text, std::int64_t limit,
                                   bool from_right, Budget& budget);

}  // namespace tp::jinja
