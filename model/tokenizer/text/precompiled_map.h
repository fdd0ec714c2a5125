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

  // Whether no text leads outside the trie or the blob, as in every table that SentencePiece has written.
  bool stays_inside() const;

  // Replaces characters of `text` (well-formed UTF-8) like the `tokenizers` library, which differs from
  // SentencePiece. A grapheme cluster of up to five bytes is replaced whole if the table has a prefix of it.
  // In longer clusters, the longest string of the table is replaced at each place, as in SentencePiece.
  std::string normalize(std::string_view text) const;

  // The longest string of the table that is a prefix of `text`, as SentencePiece replaces it.
  std::optional<Match> longest_prefix_of(std::string_view text) const;

 private:
  // Calls visit(match) for each string of the table that is a prefix of `text`, the shortest first, until it
  // returns false.
  template <class Visit>
  void for_each_prefix_of(std::string_view text, Visit&& visit) const;
  std::optional<Match> shortest_prefix_of(std::string_view text) const;

  std::vector<std::uint32_t> trie_;
  std::string blob_;
};

}  // namespace tp
