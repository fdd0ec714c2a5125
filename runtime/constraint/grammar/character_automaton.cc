#include "runtime/constraint/grammar/character_automaton.h"

#include "model/tokenizer/text/utf8.h"
#include "runtime/constraint/grammar/language_terms.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tp::constraint {
namespace {

using RegexKind = RegexNode::Kind;

constexpr std::size_t kMaxClasses = 256;
constexpr std::size_t kMaxRanges = 20000;
constexpr std::size_t kMaxSets = 400;
constexpr std::size_t kMaxStates = 6000;

using Ranges = std::vector<std::pair<char32_t, char32_t>>;

bool has_word_edge(const RegexNode& node) {
  return node.kind == RegexKind::word_edge || std::ranges::any_of(node.parts, has_word_edge);
}

// Characters that no set of the patterns distinguishes are in the same class.
class CharacterClasses {
 public:
  CharacterClasses(const std::vector<TextPattern>& patterns, LanguageBudget& budget) : budget_(budget) {
    bool has_edges = false;
    for (const TextPattern& pattern : patterns) {
      collect(pattern.node);
      has_edges |= has_word_edge(pattern.node);
    }
    // Without word edges, nothing depends on the set of word characters.
    if (has_edges) words_ = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    add_set(words_.ranges());
    require<RequestError>(sets_.size() <= kMaxSets && ranges_ <= kMaxRanges,
                          "the constraint is too large: expected patterns with at most {} different sets of "
                          "characters, found more; simplify them",
                          kMaxSets);
    divide();
  }

  std::size_t size() const { return characters_.size(); }
  const CodePoints& characters(std::size_t one) const { return characters_[one]; }
  CharacterSet256 of(const CodePoints& set) const { return sets_.at(set.ranges()); }
  CharacterSet256 words() const { return of(words_); }

 private:
  void collect(const RegexNode& node) {
    if (node.kind == RegexKind::characters) add_set(node.characters.ranges());
    for (const RegexNode& part : node.parts) collect(part);
  }

  void add_set(Ranges ranges) {
    budget_.charge(1 + ranges.size());
    const std::size_t size = ranges.size();
    if (sets_.try_emplace(std::move(ranges)).second) ranges_ += size;
  }

  // Cuts the range of all characters where any set begins or ends.
  void divide() {
    std::map<char32_t, std::vector<std::size_t>> changes = {{0, {}}};  // sets that begin or end here
    std::size_t index = 0;
    for (const auto& [ranges, classes] : sets_) {
      for (const auto& [first, last] : ranges) {
        changes[first].push_back(index);
        changes[last + 1].push_back(index);
      }
      ++index;
    }
    std::map<std::vector<bool>, std::size_t> classes;
    std::vector<bool> members(sets_.size());
    for (auto change = changes.begin(); change != changes.end() && change->first <= CodePoints::kLast;
         ++change) {
      budget_.charge(1 + members.size() / 16);
      for (const std::size_t set : change->second) members[set] = !members[set];
      const auto [found, is_new] = classes.try_emplace(members, classes.size());
      if (is_new) characters_.emplace_back();
      const auto next = std::next(change);
      characters_[found->second].add(
          change->first,
          next == changes.end() ? CodePoints::kLast : std::min<char32_t>(next->first - 1, CodePoints::kLast));
    }
    require<RequestError>(classes.size() <= kMaxClasses,
                          "the constraint is too large: expected patterns that distinguish at most {} "
                          "classes of characters, found {}; simplify them",
                          kMaxClasses, classes.size());
    index = 0;
    for (auto& [ranges, its] : sets_) {
      for (const auto& [signature, number] : classes) its[number] = signature[index];
      ++index;
    }
  }

  LanguageBudget& budget_;
  CodePoints words_;
  std::map<Ranges, CharacterSet256> sets_;
  std::size_t ranges_ = 0;
  std::vector<CodePoints> characters_;  // [classes]
};

// The effect of an anchor depends on the text before it, so an expression has a term for each of these cases.
enum Before : std::uint8_t { nothing, word, other };
using ByBefore = std::array<TermId, 3>;

class PatternTerms {
 public:
  PatternTerms(LanguageTerms& terms, const CharacterClasses& classes, LanguageBudget& budget)
      : terms_(terms), classes_(classes), budget_(budget), words_(classes.words()) {}

  TermId of(const TextPattern& pattern) {
    if (pattern.match == RegexMatch::whole) return before(pattern.node, everywhere(terms_.end()))[nothing];
    const CharacterSet256 any = CharacterSet256().set();
    const ByBefore match = before(pattern.node, everywhere(terms_.all()));
    return star([&](const ByBefore& rest) { return one_of(any, rest); }, match)[nothing];
  }

 private:
  static ByBefore everywhere(TermId term) { return {term, term, term}; }

  template <class Make>
  static ByBefore for_each(Make&& make) {
    return {make(nothing), make(word), make(other)};
  }

  ByBefore one_of(const CharacterSet256& set, const ByBefore& rest) {
    return everywhere(
        terms_.either({terms_.step(set & words_, rest[word]), terms_.step(set & ~words_, rest[other])}));
  }

  ByBefore either(const ByBefore& a, const ByBefore& b) {
    return for_each([&](Before where) { return terms_.either({a[where], b[where]}); });
  }

  // The language of `node` followed by `rest`.
  ByBefore before(const RegexNode& node, const ByBefore& rest) {
    budget_.charge(1);
    switch (node.kind) {
      case RegexKind::characters:
        budget_.charge(node.characters.parts());
        return one_of(classes_.of(node.characters), rest);
      case RegexKind::sequence: {
        ByBefore all = rest;
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) all = before(*part, all);
        return all;
      }
      case RegexKind::choice: {
        ByBefore all = everywhere(terms_.never());
        for (const RegexNode& part : node.parts) all = either(all, before(part, rest));
        return all;
      }
      case RegexKind::repeat:
        return repeated(node, rest);
      case RegexKind::text_begin:
        return {rest[nothing], terms_.never(), terms_.never()};
      case RegexKind::text_end:
        return for_each([&](Before where) { return terms_.both({terms_.end(), rest[where]}); });
      case RegexKind::ahead:
        return ahead(node, rest);
      case RegexKind::word_edge:
        return at_edge(node.negated, rest);
    }
    return rest;
  }

  ByBefore repeated(const RegexNode& node, const ByBefore& rest) {
    const RegexNode& part = node.parts.front();
    const auto once = [&](const ByBefore& behind) { return before(part, behind); };
    ByBefore all = rest;
    if (node.max == kUnbounded) all = star(once, rest);
    for (std::uint32_t i = node.min; node.max != kUnbounded && i < node.max; ++i)
      all = either(once(all), rest);
    for (std::uint32_t i = 0; i < node.min; ++i) all = once(all);
    return all;
  }

  template <class Once>
  ByBefore star(Once&& once, const ByBefore& rest) {
    const ByBefore loops = for_each([&](Before) { return terms_.add_loop(); });
    const ByBefore all = either(once(loops), rest);
    terms_.define_loops({loops.begin(), loops.end()}, {all.begin(), all.end()});
    return loops;
  }

  ByBefore ahead(const RegexNode& node, const ByBefore& rest) {
    const ByBefore seen = before(node.parts.front(), everywhere(terms_.all()));
    return for_each([&](Before where) {
      return terms_.both({node.negated ? terms_.except(seen[where]) : seen[where], rest[where]});
    });
  }

  ByBefore at_edge(bool negated, const ByBefore& rest) {
    const TermId word_next = terms_.step(words_, terms_.all());
    return for_each([&](Before where) {
      const bool wants_word = (where == word) == negated;
      return terms_.both({wants_word ? word_next : terms_.except(word_next), rest[where]});
    });
  }

  LanguageTerms& terms_;
  const CharacterClasses& classes_;
  LanguageBudget& budget_;
  CharacterSet256 words_;
};

// Makes an automaton whose states are terms, and whose steps are their derivatives.
class AutomatonMaker {
 public:
  AutomatonMaker(LanguageTerms& terms, const CharacterClasses& classes, LanguageBudget& budget)
      : terms_(terms), classes_(classes), budget_(budget) {}

  CharacterAutomaton make(TermId start) {
    state_of(start);
    for (std::uint32_t state = 0; state < terms_of_.size(); ++state) {
      const TermId term = terms_of_[state];
      ends_.push_back(terms_.contains_empty(term));
      for (std::size_t one = 0; one < classes_.size(); ++one) {
        const bool is_empty = classes_.characters(one).empty();  // only surrogates
        const std::uint32_t target = state_of(is_empty ? terms_.never() : terms_.derivative(term, one));
        targets_.push_back(target);
      }
    }
    return without_dead_ends();
  }

 private:
  std::uint32_t state_of(TermId term) {
    const auto [found, is_new] = states_.try_emplace(term, static_cast<std::uint32_t>(terms_of_.size()));
    if (is_new) terms_of_.push_back(term);
    require<RequestError>(terms_of_.size() <= kMaxStates,
                          "the constraint is too large: expected patterns and formats whose intersection has "
                          "at most {} states, found more; simplify them, or lower their repetitions",
                          kMaxStates);
    return found->second;
  }

  std::uint32_t target(std::size_t state, std::size_t one) const {
    return targets_[state * classes_.size() + one];
  }

  // The states from which an end can be reached.
  std::vector<bool> alive() {
    std::vector<std::vector<std::uint32_t>> sources(terms_of_.size());
    for (std::uint32_t state = 0; state < terms_of_.size(); ++state) {
      for (std::size_t one = 0; one < classes_.size(); ++one) sources[target(state, one)].push_back(state);
    }
    std::vector<bool> found = ends_;
    std::vector<std::uint32_t> open;
    for (std::uint32_t state = 0; state < found.size(); ++state) {
      if (found[state]) open.push_back(state);
    }
    while (!open.empty()) {
      const std::uint32_t state = open.back();
      open.pop_back();
      for (const std::uint32_t source : sources[state]) {
        if (!found[source]) open.push_back(source);
        found[source] = true;
      }
    }
    return found;
  }

  CharacterAutomaton without_dead_ends() {
    budget_.charge(targets_.size() / 4);
    const std::vector<bool> kept = alive();
    CharacterAutomaton automaton;
    if (!kept.front()) return automaton;
    std::vector<std::uint32_t> number(kept.size());
    std::uint32_t next = 0;
    for (std::size_t state = 0; state < kept.size(); ++state) number[state] = kept[state] ? next++ : 0;
    for (std::size_t state = 0; state < kept.size(); ++state) {
      if (!kept[state]) continue;
      std::map<std::uint32_t, CodePoints> characters;
      for (std::size_t one = 0; one < classes_.size(); ++one) {
        if (!kept[target(state, one)]) continue;
        budget_.charge(1 + classes_.characters(one).parts());
        characters[number[target(state, one)]].add(classes_.characters(one));
      }
      CharacterAutomaton::State& added = automaton.states.emplace_back();
      added.ends = ends_[state];
      for (const auto& [to, set] : characters) added.steps.push_back({set, to});
    }
    return automaton;
  }

  LanguageTerms& terms_;
  const CharacterClasses& classes_;
  LanguageBudget& budget_;
  std::map<TermId, std::uint32_t> states_;
  std::vector<TermId> terms_of_;        // [states]
  std::vector<bool> ends_;              // [states]
  std::vector<std::uint32_t> targets_;  // [states, classes]
};

}  // namespace

bool CharacterAutomaton::matches(std::string_view text) const {
  if (states.empty()) return false;
  std::uint32_t state = 0;
  for (const auto [character, bytes] : utf8::Characters(text)) {
    const std::vector<Step>& steps = states[state].steps;
    const char32_t next = character;
    const auto step =
        std::ranges::find_if(steps, [&](const Step& one) { return one.characters.contains(next); });
    if (step == steps.end()) return false;
    state = step->target;
  }
  return states[state].ends;
}

CharacterAutomaton intersection(const std::vector<TextPattern>& patterns, LanguageBudget& budget) {
  const CharacterClasses classes(patterns, budget);
  LanguageTerms terms(budget);
  PatternTerms pattern_terms(terms, classes, budget);
  std::vector<TermId> parts;
  for (const TextPattern& pattern : patterns) parts.push_back(pattern_terms.of(pattern));
  return AutomatonMaker(terms, classes, budget).make(terms.both(std::move(parts)));
}

}  // namespace tp::constraint
