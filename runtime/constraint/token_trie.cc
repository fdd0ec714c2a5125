#include "runtime/constraint/token_trie.h"

#include <algorithm>
#include <string_view>

namespace tp::constraint {

TokenTrie::TokenTrie(std::span<const std::string> bytes) {
  std::size_t nodes = 1;
  for (std::size_t id = 0; id < bytes.size(); ++id) {
    if (!bytes[id].empty()) tokens_.push_back(static_cast<TokenId>(id));
    nodes += bytes[id].size();
  }
  const auto bytes_of = [&](TokenId id) { return std::string_view(bytes[static_cast<std::size_t>(id)]); };
  std::ranges::sort(tokens_, [&](TokenId a, TokenId b) {
    const int order = bytes_of(a).compare(bytes_of(b));
    return order != 0 ? order < 0 : a < b;
  });
  nodes_.clear();
  nodes_.reserve(nodes / 2);
  nodes_.push_back({});
  std::vector<std::uint32_t> path = {0};  // the nodes from the root to the last token
  const auto close_to = [&](std::size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) {
      const Node& closed = nodes_[path.back()];
      Node& parent = nodes_[path[path.size() - 2]];
      parent.deepest = std::max(parent.deepest, closed.deepest);
      nodes_[path.back()].end = static_cast<std::uint32_t>(nodes_.size());
    }
  };
  std::string_view last;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view text = bytes_of(tokens_[i]);
    const auto [end, other] = std::ranges::mismatch(last, text);
    const auto common = static_cast<std::size_t>(end - last.begin());
    close_to(common);
    for (std::size_t place = common; place < text.size(); ++place) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({.first_token = static_cast<std::uint32_t>(i),
                        .depth = static_cast<std::uint32_t>(place + 1),
                        .deepest = static_cast<std::uint32_t>(place + 1),
                        .byte = static_cast<std::uint8_t>(text[place])});
    }
    depth_ = std::max(depth_, text.size());
    last = text;
  }
  close_to(0);
  nodes_.front().end = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({.end = nodes_.front().end, .first_token = static_cast<std::uint32_t>(tokens_.size())});
}

}  // namespace tp::constraint
