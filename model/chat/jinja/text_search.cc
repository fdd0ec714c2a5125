#include "model/chat/jinja/text_search.h"

#include <cstring>
#include <string>

namespace tp::jinja {

std::size_t find_text(std::string_view text, std::string_view wanted, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const void* const found = ::memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::vector<std::size_t> places_of(std::string_view wanted, std::string_view text, std::int64_t limit,
                                   bool from_right, Budget& budget) {
  if (from_right) {
    // Neither the C nor the C++ library searches from the right in linear time.
    const std::string backwards(text.rbegin(), text.rend());
    const std::string reversed(wanted.rbegin(), wanted.rend());
    std::vector<std::size_t> places = places_of(reversed, backwards, limit, false, budget);
    for (std::size_t& place : places) place = text.size() - place - wanted.size();
    return places;
  }
  std::vector<std::size_t> places;
  std::size_t at = 0;
  while (limit < 0 || static_cast<std::int64_t>(places.size()) < limit) {
    at = find_text(text, wanted, at);
    if (at == std::string_view::npos) break;
    budget.spend(2 * sizeof(std::string_view));
    places.push_back(at);
    at += wanted.size();
  }
  return places;
}

}  // namespace tp::jinja
