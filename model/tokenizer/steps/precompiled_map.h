#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// SentencePiece's table of characters and replacements: a double-array trie of UTF-8 strings, whose values
// are offsets into a blob of NUL-terminated replacements.
class PrecompiledMap {
 public:
  struct Match {
    std::size_t length;
    std::string_view replacement;
  };

  // Reads the table in the format of a model file: the trie's size in bytes (32 bits, little-endian), the
  // trie, and the blob. Returns nullopt if the contents are inconsistent.
  static std::optional<PrecompiledMap> from_bytes(std::string_view bytes);

  // Replaces the longest string of the table at each place of `text` (well-formed UTF-8), like SentencePiece.
  // The `tokenizers` library looks up whole grapheme clusters instead. For clusters of more than five bytes
  // it differs from the models' own results.
  std::string normalize(std::string_view text) const;

  // The longest string of the table that is a prefix of `text`.
  std::optional<Match> longest_prefix_of(std::string_view text) const;

 private:
  std::vector<std::uint32_t> trie_;
  std::string blob_;
};

}  // namespace tp
