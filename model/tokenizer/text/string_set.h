#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tp {

// A map from strings to values, stored as a trie that finds the longest prefix of a text.
class StringSet {
 public:
  struct Match {
    std::size_t length;
    std::size_t value;
  };

  StringSet();

  // `text` must not be empty. A later value replaces an earlier value.
  void insert(std::string_view text, std::size_t value);

  bool contains(std::string_view text) const;

  // Calls visit(match) for each string of the set that is a prefix of `text`, the shortest first.
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

  // The longest string of the set that is a prefix of `text`.
  std::optional<Match> longest_prefix_of(std::string_view text) const;

 private:
  // An edge of the trie, in a hash table with open addressing, because a Unigram model reads edges several
  // times per byte of text.
  struct Edge {
    std::uint64_t key = 0;    // parent node and byte
    std::uint32_t child = 0;  // 0 (the root): the slot is free
  };

  static std::uint64_t key_of(std::uint32_t node, char byte) {
    return (std::uint64_t{node} << 8) | static_cast<unsigned char>(byte);
  }

  // The slot of the key, or the free slot where the key belongs.
  std::size_t slot_of(std::uint64_t key) const {
    std::size_t slot = (key * 0x9E3779B97F4A7C15u) >> shift_;
    while (edges_[slot].child != 0 && edges_[slot].key != key) slot = (slot + 1) & (edges_.size() - 1);
    return slot;
  }

  // The child, or 0 (the root) if the node has no such child.
  std::uint32_t child_of(std::uint32_t node, char byte) const {
    return edges_[slot_of(key_of(node, byte))].child;
  }

  void grow();

  std::vector<std::optional<std::size_t>> values_;  // [nodes]
  std::vector<Edge> edges_;                         // at most half full
  unsigned shift_;
  // Most bytes of a text begin no string. This table rejects them without a walk.
  std::array<bool, 256> begins_ = {};
};

}  // namespace tp
