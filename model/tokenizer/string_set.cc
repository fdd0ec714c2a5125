#include "model/tokenizer/string_set.h"

#include <algorithm>

namespace tp {

StringSet::StringSet() : nodes_(1) {}

std::uint32_t StringSet::child_of(std::uint32_t node, char byte) const {
  const auto& children = nodes_[node].children;
  const auto child = std::find_if(children.begin(), children.end(),
                                  [byte](const auto& candidate) { return candidate.first == byte; });
  return child == children.end() ? 0 : child->second;
}

void StringSet::insert(std::string_view text, std::size_t value) {
  begins_[static_cast<unsigned char>(text.front())] = true;
  std::uint32_t node = 0;
  for (const char byte : text) {
    std::uint32_t child = child_of(node, byte);
    if (child == 0) {
      child = static_cast<std::uint32_t>(nodes_.size());
      nodes_[node].children.emplace_back(byte, child);
      nodes_.emplace_back();
    }
    node = child;
  }
  nodes_[node].value = value;
}

std::optional<StringSet::Match> StringSet::longest_prefix_of(std::string_view text) const {
  std::optional<Match> longest;
  for_each_prefix_of(text, [&](const Match& match) { longest = match; });
  return longest;
}

}  // namespace tp
