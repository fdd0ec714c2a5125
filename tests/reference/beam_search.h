// Beam search over whole rows of log-probabilities, after transformers 4.57's _beam_search. Its sets of beams
// have a fixed size: unused beams have a score of -1e9.
#pragma once

#include "tp/generation_defaults.h"
#include "tp/token_id.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

namespace tp::reference {

struct FoundText {
  std::vector<TokenId> tokens;
  double score = 0.0;
};

// Returns the log-probabilities of every token after these generated tokens; -infinity for tokens that are
// not allowed.
using RowOf = std::function<std::vector<double>(const std::vector<TokenId>& generated)>;

inline std::vector<FoundText> beam_search(const BeamSearch& search, const std::vector<TokenId>& ends,
                                          std::size_t max_tokens, const RowOf& row_of) {
  constexpr double kNone = -1e9;
  struct Slot {
    std::vector<TokenId> tokens;
    double sum = kNone;
  };
  struct Place {
    std::size_t beam;
    TokenId token;
    double sum;
    bool ends;
  };
  const auto beams = static_cast<std::size_t>(search.beams);
  const double penalty = static_cast<double>(search.length_penalty);
  std::vector<Slot> running(beams);
  running.front().sum = 0.0;
  std::vector<FoundText> finished(beams, {{}, kNone});
  std::vector<bool> is_finished(beams, false);
  for (std::size_t length = 1; length <= max_tokens; ++length) {
    std::vector<Place> places;
    for (std::size_t beam = 0; beam < beams; ++beam) {
      const std::vector<double> row = row_of(running[beam].tokens);
      for (std::size_t id = 0; id < row.size(); ++id)
        places.push_back({beam, static_cast<TokenId>(id), running[beam].sum + row[id], false});
    }
    std::ranges::stable_sort(places, std::greater<>(), &Place::sum);
    places.resize(std::max<std::size_t>(2, 1 + ends.size()) * beams);
    for (Place& place : places)
      place.ends = length == max_tokens || std::ranges::find(ends, place.token) != ends.end();
    // Merges the finished texts with the texts that finish now among the first beams.
    std::vector<FoundText> merged = finished;
    std::vector<bool> merged_finished = is_finished;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const bool counts = places[i].ends && i < beams;
      FoundText text{running[places[i].beam].tokens,
                     places[i].sum / std::pow(static_cast<double>(length), penalty)};
      text.tokens.push_back(places[i].token);
      if (!counts) text.score += kNone;
      merged.push_back(std::move(text));
      merged_finished.push_back(counts);
    }
    std::vector<std::size_t> order(merged.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return merged[i].score; });
    for (std::size_t i = 0; i < beams; ++i) {
      finished[i] = merged[order[i]];
      is_finished[i] = merged_finished[order[i]];
    }
    // Chooses the next beams.
    for (Place& place : places) place.sum += place.ends ? kNone : 0.0;
    std::ranges::stable_sort(places, std::greater<>(), &Place::sum);
    std::vector<Slot> next;
    for (std::size_t i = 0; i < beams; ++i) {
      Slot slot{running[places[i].beam].tokens, places[i].sum};
      slot.tokens.push_back(places[i].token);
      next.push_back(std::move(slot));
    }
    running = std::move(next);
    const bool all_finished = std::ranges::all_of(is_finished, [](bool is) { return is; });
    if (all_finished && search.stop == BeamSearch::Stop::early) break;
    const bool at_any = search.stop == BeamSearch::Stop::never && penalty > 0.0;
    const double best =
        running.front().sum / std::pow(static_cast<double>(at_any ? max_tokens : length), penalty);
    if (all_finished && best <= finished.back().score) break;
  }
  std::vector<FoundText> found;
  for (std::size_t i = 0; i < beams; ++i)
    if (is_finished[i] && finished[i].score > kNone / 2) found.push_back(finished[i]);
  return found;
}

}  // namespace tp::reference
