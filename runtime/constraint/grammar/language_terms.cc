#include "runtime/constraint/grammar/language_terms.h"

#include "tp/internal/require.h"

#include <algorithm>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxTerms = 200000;

std::array<std::uint64_t, 4> words_of(const CharacterSet256& set) {
  std::array<std::uint64_t, 4> words{};
  for (std::size_t bit = set._Find_first(); bit < set.size(); bit = set._Find_next(bit))
    words[bit / 64] |= std::uint64_t{1} << (bit % 64);
  return words;
}

}  // namespace

class LanguageTerms::Descent {
 public:
  explicit Descent(LanguageTerms& terms) : terms_(terms) {
    constexpr std::size_t kMaxDepth = 3000;
    require<RequestError>(terms_.depth_ < kMaxDepth,
                          "the constraint is nested too deeply: expected at most {} parts of a pattern that "
                          "may be empty in a row, found more; simplify it",
                          kMaxDepth);
    ++terms_.depth_;
  }
  ~Descent() { --terms_.depth_; }
  Descent(const Descent&) = delete;
  Descent& operator=(const Descent&) = delete;

 private:
  LanguageTerms& terms_;
};

LanguageTerms::LanguageTerms(LanguageBudget& budget) : budget_(budget) {
  for (const Kind kind : {Kind::never, Kind::end, Kind::all}) intern({.kind = kind});
}

std::uint32_t LanguageTerms::index_of(const CharacterSet256& set) {
  const auto [found, is_new] =
      set_index_.try_emplace(words_of(set), static_cast<std::uint32_t>(sets_.size()));
  if (is_new) sets_.push_back(set);
  return found->second;
}

TermId LanguageTerms::intern(Term term) {
  budget_.charge(4 + term.parts.size());
  const auto [found, is_new] =
      ids_.try_emplace({term.kind, term.set, term.parts}, static_cast<TermId>(terms_.size()));
  if (is_new) terms_.push_back(std::move(term));
  require<RequestError>(terms_.size() < kMaxTerms,
                        "the constraint is too large: expected patterns of at most {} parts, found more; "
                        "simplify them, or lower their repetitions",
                        kMaxTerms);
  return found->second;
}

TermId LanguageTerms::step(const CharacterSet256& set, TermId next) {
  if (set.none() || next == never()) return never();
  return intern({.kind = Kind::step, .set = index_of(set), .parts = {next}});
}

TermId LanguageTerms::except(TermId term) {
  if (term == never()) return all();
  if (term == all()) return never();
  if (terms_[term].kind == Kind::except) return terms_[term].parts.front();
  return intern({.kind = Kind::except, .parts = {term}});
}

// Joins the steps of a union that lead to the same term.
std::vector<TermId> LanguageTerms::with_joined_steps(const std::vector<TermId>& parts) {
  std::vector<TermId> others;
  std::map<TermId, CharacterSet256> sets;  // sets of steps, by the term after the step
  for (const TermId part : parts) {
    const Term& term = terms_[part];
    if (term.kind == Kind::step)
      sets[term.parts.front()] |= sets_[term.set];
    else
      others.push_back(part);
  }
  for (const auto& [target, set] : sets) others.push_back(step(set, target));
  return others;
}

TermId LanguageTerms::combined(Kind kind, std::vector<TermId> parts) {
  const TermId neutral = kind == Kind::either ? never() : all();
  const TermId absorbing = kind == Kind::either ? all() : never();
  std::vector<TermId> flat;
  for (const TermId part : parts) {
    if (terms_[part].kind == kind)
      flat.insert(flat.end(), terms_[part].parts.begin(), terms_[part].parts.end());
    else
      flat.push_back(part);
  }
  budget_.charge(flat.size());
  if (kind == Kind::either) flat = with_joined_steps(flat);
  std::erase(flat, neutral);
  std::ranges::sort(flat);
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (std::ranges::find(flat, absorbing) != flat.end()) return absorbing;
  if (flat.empty()) return neutral;
  if (flat.size() == 1) return flat.front();
  return intern({.kind = kind, .parts = std::move(flat)});
}

TermId LanguageTerms::add_loop() {
  const auto number = static_cast<std::uint32_t>(terms_.size());  // makes every loop different
  return intern({.kind = Kind::loop, .set = number});
}

// A loop without a step adds nothing to itself: X = P or (Q and X) is P.
void LanguageTerms::define_loops(const std::vector<TermId>& loops, const std::vector<TermId>& definitions) {
  std::map<TermId, TermId> known;
  std::vector<TermId> guarded;
  for (const TermId definition : definitions) guarded.push_back(without(definition, loops, known));
  for (std::size_t i = 0; i < loops.size(); ++i) terms_[loops[i]].parts = {guarded[i]};
}

TermId LanguageTerms::without(TermId id, const std::vector<TermId>& loops, std::map<TermId, TermId>& known) {
  if (std::ranges::find(loops, id) != loops.end()) return never();
  const Term term = terms_[id];
  const bool has_parts = term.kind == Kind::either || term.kind == Kind::both ||
                         (term.kind == Kind::loop && !term.parts.empty());
  if (!has_parts) return id;
  if (const auto found = known.find(id); found != known.end()) return found->second;
  const Descent descent(*this);
  budget_.charge(term.parts.size());
  std::vector<TermId> parts;
  for (const TermId part : term.parts) parts.push_back(without(part, loops, known));
  TermId result = id;
  if (parts != term.parts) result = term.kind == Kind::loop ? parts.front() : combined(term.kind, parts);
  return known[id] = result;
}

bool LanguageTerms::contains_empty(TermId id) {
  if (const auto found = with_empty_.find(id); found != with_empty_.end()) return found->second;
  const Descent descent(*this);
  const Term& term = terms_[id];
  budget_.charge(1 + term.parts.size());
  const auto holds = [&](TermId part) { return contains_empty(part); };
  bool result = term.kind == Kind::end || term.kind == Kind::all;
  if (term.kind == Kind::either) result = std::ranges::any_of(term.parts, holds);
  if (term.kind == Kind::both) result = std::ranges::all_of(term.parts, holds);
  if (term.kind == Kind::except) result = !holds(term.parts.front());
  if (term.kind == Kind::loop) result = holds(term.parts.front());
  return with_empty_[id] = result;
}

TermId LanguageTerms::derivative(TermId id, std::size_t character_class) {
  const std::uint64_t key = std::uint64_t{id} << 8 | character_class;
  if (const auto found = derivatives_.find(key); found != derivatives_.end()) return found->second;
  const Descent descent(*this);
  const TermId result = derivative_of(Term(terms_[id]), character_class);
  derivatives_[key] = result;
  return result;
}

TermId LanguageTerms::derivative_of(const Term& term, std::size_t character_class) {
  budget_.charge(1 + term.parts.size());
  if (term.kind == Kind::all) return all();
  if (term.kind == Kind::never || term.kind == Kind::end) return never();
  if (term.kind == Kind::step) return sets_[term.set][character_class] ? term.parts.front() : never();
  std::vector<TermId> parts;
  for (const TermId part : term.parts) parts.push_back(derivative(part, character_class));
  if (term.kind == Kind::loop) return parts.front();
  return term.kind == Kind::except ? except(parts.front()) : combined(term.kind, std::move(parts));
}

}  // namespace tp::constraint
