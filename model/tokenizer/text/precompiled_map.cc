#include "model/tokenizer/text/precompiled_map.h"

#include "model/tokenizer/text/unicode.h"
#include "model/tokenizer/text/utf8.h"

namespace tp {
namespace {

std::uint32_t word_at(std::string_view bytes, std::size_t place) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i)
    word |= std::uint32_t{static_cast<unsigned char>(bytes[place + i])} << (8 * i);
  return word;
}

// A unit of a double array. Bits 0-7: label of the edge to the unit. Bit 8: a string ends here. Bits 10-30:
// offset of the children (in units of 256 if bit 9 is set). If bit 31 is set, the unit contains a value
// instead.
bool ends_string(std::uint32_t unit) { return ((unit >> 8) & 1) != 0; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FFu; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); }

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

std::optional<PrecompiledMap> PrecompiledMap::from_bytes(std::string_view bytes) {
  if (bytes.size() < 4) return std::nullopt;
  const std::size_t trie_size = word_at(bytes, 0);
  if (trie_size % 4 != 0 || trie_size == 0 || trie_size > bytes.size() - 4) return std::nullopt;
  PrecompiledMap map;
  for (std::size_t place = 4; place < 4 + trie_size; place += 4) map.trie_.push_back(word_at(bytes, place));
  map.blob_ = bytes.substr(4 + trie_size);
  // The blob must be valid text, and its last replacement must be terminated.
  if (map.blob_.empty() || map.blob_.back() != '\0' || !utf8::is_valid(map.blob_)) return std::nullopt;
  return map;
}

bool PrecompiledMap::stays_inside() const {
  constexpr std::uint32_t kIsValue = std::uint32_t{1} << 31;
  for (std::size_t place = 0; place < trie_.size(); ++place) {
    const std::uint32_t unit = trie_[place];
    if (place != 0 && (unit & kIsValue) != 0) continue;  // no text leads on from here
    // The children of a unit, one per byte, are within 256 aligned units.
    const std::size_t children = place ^ offset_of(unit);
    if ((children | 0xFF) >= trie_.size()) return false;
    if (ends_string(unit) && value_of(trie_[children]) >= blob_.size()) return false;
  }
  return true;
}

template <class Visit>
void PrecompiledMap::for_each_prefix_of(std::string_view text, Visit&& visit) const {
  std::uint32_t node = offset_of(trie_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint32_t byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    // A damaged trie may lead outside the array. Then the search ends.
    if (byte == 0 || node >= trie_.size() || label_of(trie_[node]) != byte) break;
    const std::uint32_t unit = trie_[node];
    node ^= offset_of(unit);
    if (!ends_string(unit) || node >= trie_.size()) continue;
    const std::size_t place = value_of(trie_[node]);
    // A replacement must begin at a character, and a match must end at one, or the result would not be text.
    if (place >= blob_.size() || is_continuation(blob_[place])) continue;
    if (i + 1 < text.size() && is_continuation(text[i + 1])) continue;
    if (!visit(Match{i + 1, blob_.c_str() + place})) break;
  }
}

std::optional<PrecompiledMap::Match> PrecompiledMap::longest_prefix_of(std::string_view text) const {
  std::optional<Match> longest;
  for_each_prefix_of(text, [&](const Match& match) {
    longest = match;
    return true;
  });
  return longest;
}

std::optional<PrecompiledMap::Match> PrecompiledMap::shortest_prefix_of(std::string_view text) const {
  std::optional<Match> shortest;
  for_each_prefix_of(text, [&](const Match& match) {
    shortest = match;
    return false;
  });
  return shortest;
}

std::string PrecompiledMap::normalize(std::string_view text) const {
  constexpr std::size_t kLongestCluster = 5;  // bytes
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view cluster = text.substr(0, unicode::first_cluster(text));
    text.remove_prefix(cluster.size());
    const std::optional<Match> whole =
        cluster.size() <= kLongestCluster ? shortest_prefix_of(cluster) : std::nullopt;
    if (whole) {
      out.append(whole->replacement);
      continue;
    }
    for (std::string_view rest = cluster; !rest.empty();) {
      const std::optional<Match> match = longest_prefix_of(rest);
      const std::size_t length = match ? match->length : utf8::first_character(rest).length;
      out.append(match ? match->replacement : rest.substr(0, length));
      rest.remove_prefix(length);
    }
  }
  return out;
}

}  // namespace tp
