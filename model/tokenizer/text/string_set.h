#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tp {

// A set of strings with a value each, kept as a trie to find the longest that a text begins with.
class StringSet {
 public:
  struct Match {
    std::size_t length;
    std::size_t value;
  };

  StringSet();

  // `text` must not be empty. A later value replaces an earlier one.
  void insert(std::string_view text, std::size_t value);

  bool contains(std::string_view text) const;

  // Calls visit(match) for every string of the set that `text` begins with, the shortest first.
  template <class Visit>
  void for_each_prefix_of(std::string_view text, Visit&& visit) const {
    if (text.empty() || !begins_[static_cast<unsigned char>(text.front())]) return;
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child_of(node, text[i]);
      if (node == 0) break;
      if (values_[node]) visit(Match{i + 1, *values_[node]});
    }
  }

  // The longest of them.
  std::optional<Match> longest_prefix_of(std::string_view text) const;

 private:
  // An edge of the trie, in a hash table with open addressing: a Unigram model reads it for every byte of a
  // text several times.
  struct Edge {
    std::uint64_t key = 0;    // the parent and the byte
    std::uint32_t child = 0;  // 0, the root: the slot is free
  };

  static std::uint64_t key_of(std::uint32_t node, char byte) {
    return (std::uint64_t{node} << 8) | static_cast<unsigned char>(byte);
  }

  // The slot that holds the key, or the free one where it belongs.
  std::size_t slot_of(std::uint64_t key) const {
    std::size_t slot = (key * 0x9E3779B97F4A7C15u) >> shift_;
    while (edges_[slot].child != 0 && edges_[slot].key != key) slot = (slot + 1) & (edges_.size() - 1);
    return slot;
  }

  // 0, the root, when there is none.
  std::uint32_t child_of(std::uint32_t node, char byte) const {
    return edges_[slot_of(key_of(node, byte))].child;
  }

  void grow();

  std::vector<std::optional<std::size_t>> values_;  // by node
  std::vector<Edge> edges_;                         // at most half full
  unsigned shift_;
  // Most places of a text begin nothing: they are refused here without walking.
  std::array<bool, 256> begins_ = {};
};

}  // namespace tp
