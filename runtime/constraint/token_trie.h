// A trie of the bytes of a vocabulary's tokens.
#pragma once

#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tp::constraint {

// Nodes are numbered in preorder: the nodes below a node have the numbers after it, up to its end. Node 0 is
// the root.
class TokenTrie {
 public:
  TokenTrie() = default;
  // `bytes`: [tokens]. Tokens without bytes are left out.
  explicit TokenTrie(std::span<const std::string> bytes);

  struct Node {
    std::uint32_t end = 0;          // number after the last node below it
    std::uint32_t first_token = 0;  // index into tokens_; its last token precedes the next node's first
    std::uint32_t depth = 0;
    std::uint32_t deepest = 0;  // largest depth at or below it
    std::uint8_t byte = 0;      // byte between its parent and it
  };

  std::size_t size() const { return nodes_.size() - 1; }
  const Node& node(std::size_t index) const { return nodes_[index]; }
  // The tokens that end at a node. There are several if tokens have equal bytes.
  std::span<const TokenId> tokens(std::size_t index) const {
    return std::span(tokens_).subspan(nodes_[index].first_token,
                                      nodes_[index + 1].first_token - nodes_[index].first_token);
  }
  // All tokens that end at a node or below it.
  std::span<const TokenId> tokens_below(std::size_t index) const {
    return std::span(tokens_).subspan(nodes_[index].first_token,
                                      nodes_[nodes_[index].end].first_token - nodes_[index].first_token);
  }
  std::size_t depth() const { return depth_; }

 private:
  std::vector<Node> nodes_ = {{.end = 1}, {.end = 1}};  // includes a node after the last one
  std::vector<TokenId> tokens_;                         // in the order of their nodes
  std::size_t depth_ = 0;
};

}  // namespace tp::constraint
