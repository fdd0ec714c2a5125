#include "model/tokenizer/text/string_set.h"

namespace tp {

StringSet::StringSet() : values_(1), edges_(16), shift_(60) {}

void StringSet::grow() {
  std::vector<Edge> old(2 * edges_.size());
  old.swap(edges_);
  --shift_;
  for (const Edge& edge : old)
    if (edge.child != 0) edges_[slot_of(edge.key)] = edge;
}

void StringSet::insert(std::string_view text, std::size_t value) {
  begins_[static_cast<unsigned char>(text.front())] = true;
  std::uint32_t node = 0;
  for (const char byte : text) {
    if (2 * values_.size() >= edges_.size()) grow();
    Edge& edge = edges_[slot_of(key_of(node, byte))];
    if (edge.child == 0) {
      edge = {key_of(node, byte), static_cast<std::uint32_t>(values_.size())};
      values_.emplace_back();
    }
    node = edge.child;
  }
  values_[node] = value;
}

bool StringSet::contains(std::string_view text) const {
  const std::optional<Match> longest = longest_prefix_of(text);
  return longest && longest->length == text.size();
}

std::optional<StringSet::Match> StringSet::longest_prefix_of(std::string_view text) const {
  std::optional<Match> longest;
  for_each_prefix_of(text, [&](const Match& match) { longest = match; });
  return longest;
}

}  // namespace tp
