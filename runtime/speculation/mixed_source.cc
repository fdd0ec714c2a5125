#include "runtime/speculation/mixed_source.h"

#include <cstddef>
#include <utility>

namespace tp {

MixedSource::MixedSource(std::unique_ptr<DraftSource> free, std::unique_ptr<DraftSource> other)
    : free_(std::move(free)), other_(std::move(other)) {}

std::vector<Draft> MixedSource::draft(std::span<const DraftQuery> queries) {
  constexpr double kLikely = 0.5;
  std::vector<Draft> drafts = free_->draft(queries);
  std::vector<DraftQuery> unlikely;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    if (!drafts[i].chances.empty() && drafts[i].chances.front() >= kLikely) continue;
    unlikely.push_back(queries[i]);
    places.push_back(i);
  }
  if (unlikely.empty()) return drafts;
  std::vector<Draft> others = other_->draft(unlikely);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!others[i].tokens.empty()) drafts[places[i]] = std::move(others[i]);
  }
  return drafts;
}

void MixedSource::learn_from(const DraftQuery& text) {
  free_->learn_from(text);
  other_->learn_from(text);
}

void MixedSource::end(std::uint64_t sequence) {
  free_->end(sequence);
  other_->end(sequence);
}

}  // namespace tp
