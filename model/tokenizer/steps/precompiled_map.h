#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// SentencePiece's table of characters and what they are replaced by: a double-array trie of UTF-8 strings,
// whose values are places in a blob of NUL-terminated replacements.
class PrecompiledMap {
 public:
  struct Match {
    std::size_t length;
    std::string_view replacement;
  };

  // The table as it is in a model's file: the trie's size in bytes (32 bits, little-endian), the trie, and
  // the blob. Nothing if the sizes contradict each other.
  static std::optional<PrecompiledMap> from_bytes(std::string_view bytes);

  // `text` (well-formed UTF-8) with the longest string of the table replaced wherever one begins, as
  // SentencePiece does it. The `tokenizers` library looks up whole grapheme clusters instead, and differs
  // from the models' own results where these are longer than five bytes.
  std::string normalize(std::string_view text) const;

  // The longest string of the table that `text` begins with.
  std::optional<Match> longest_prefix_of(std::string_view text) const;

 private:
  std::vector<std::uint32_t> trie_;
  std::string blob_;
};

}  // namespace tp
