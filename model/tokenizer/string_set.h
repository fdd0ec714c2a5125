#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
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

  // Calls visit(match) for every string of the set that `text` begins with, the shortest first.
  template <class Visit>
  void for_each_prefix_of(std::string_view text, Visit&& visit) const {
    if (text.empty() || !begins_[static_cast<unsigned char>(text.front())]) return;
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child_of(node, text[i]);
      if (node == 0) break;
      if (nodes_[node].value) visit(Match{i + 1, *nodes_[node].value});
    }
  }

  // The longest of them.
  std::optional<Match> longest_prefix_of(std::string_view text) const;

 private:
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> children;
    std::optional<std::size_t> value;
  };

  // 0, the root, when there is none.
  std::uint32_t child_of(std::uint32_t node, char byte) const;

  std::vector<Node> nodes_;
  // Most places of a text begin nothing: they are refused here without walking.
  std::array<bool, 256> begins_ = {};
};

}  // namespace tp
