#include "runtime/constraint/token_masks.h"

#include <algorithm>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxMaskBytes = std::size_t{32} << 20;

void add_all(const TokenMask& from, TokenMask& to) {
  for (std::size_t i = 0; i < to.words().size(); ++i) to.words()[i] |= from.words()[i];
}

// Follows the texts below a node of the trie, beginning in this state. Calls visit(node, state) for every
// node that can be reached.
template <class Visit>
void follow(const TokenTrie& trie, std::uint32_t begin, StateId state, StateMachine& machine,
            std::vector<StateId>& path, Visit&& visit) {
  path.resize(trie.depth() + 1);
  path[trie.node(begin).depth] = state;
  const std::uint32_t end = trie.node(begin).end;
  for (std::uint32_t index = begin + 1; index < end;) {
    const TokenTrie::Node& node = trie.node(index);
    machine.charge(1);
    const StateId next = machine.next(path[node.depth - 1], node.byte);
    if (next == kDead) {
      index = node.end;
      continue;
    }
    path[node.depth] = next;
    visit(index, next);
    ++index;
  }
}

// Bounds between which all counts of repetitions or steps behave alike, because more can follow each of them.
struct CountRange {
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  bool starts_alike = true;  // counts far below `min` also behave alike
};

std::optional<CountRange> counts_of(const Automaton::Rule& rule) {
  if (rule.is_repetition) return CountRange{rule.min, rule.max};
  if (rule.steps) return CountRange{rule.min, rule.steps->max_of_all(), rule.steps->is_endless()};
  return std::nullopt;
}

}  // namespace

std::shared_ptr<const TokenMask> TokenMasks::allowed(StateId state) {
  if (const auto known = masks_.find(state); known != masks_.end()) return known->second;
  if (bytes() > kMaxMaskBytes) {
    masks_.clear();
    locals_.clear();
  }
  return masks_[state] = std::make_shared<const TokenMask>(find(state));
}

TokenMask TokenMasks::find(StateId state) {
  TokenMask mask(vocabulary_->size());
  const std::vector<Item> roots = machine_->roots(state);
  for (const Item& item : roots) {
    machine_->charge(mask.words().size() / 32 + 1);
    const Local& local = local_of(item);
    add_all(local.within, mask);
    if (local.rule_ends.empty() || item.origin == kOutside) continue;
    const StateId after = machine_->after_rule(item.origin, item.called_as);
    for (const std::uint32_t node : local.rule_ends) add_after_rule(node, after, mask);
  }
  return mask;
}

void TokenMasks::add_after_rule(std::uint32_t node, StateId state, TokenMask& mask) {
  const TokenTrie& trie = vocabulary_->trie();
  follow(trie, node, state, *machine_, path_, [&](std::uint32_t index, StateId) {
    for (const TokenId id : trie.tokens(index)) mask.add(id);
  });
}

const TokenMasks::Local& TokenMasks::local_of(const Item& item) {
  const std::uint32_t count = representative(item);
  const std::uint64_t key = std::uint64_t{item.place} << 32 | count;
  if (const auto known = locals_.find(key); known != locals_.end()) return known->second;
  return locals_.insert_or_assign(key, find_local({item.place, count})).first->second;
}

TokenMasks::Local TokenMasks::find_local(const Item& item) {
  if (const std::optional<std::uint32_t> safe = bytes_below_bound(item)) return shortened(item, *safe);
  const TokenTrie& trie = vocabulary_->trie();
  Local local{.within = TokenMask(vocabulary_->size()), .rule_ends = {}};
  follow(trie, 0, machine_->state_of({item}), *machine_, path_, [&](std::uint32_t index, StateId state) {
    for (const TokenId id : trie.tokens(index)) local.within.add(id);
    if (machine_->ends(state) && trie.node(index).end > index + 1) local.rule_ends.push_back(index);
  });
  return local;
}

// Every repetition and every step takes at least one byte.
std::optional<std::uint32_t> TokenMasks::bytes_below_bound(const Item& item) const {
  const Automaton& automaton = machine_->automaton();
  const auto counts = counts_of(automaton.rules[automaton.positions[item.place].rule]);
  const std::size_t longest = vocabulary_->trie().depth() + 1;
  if (!counts || counts->max == kUnbounded || counts->max < counts->min + longest + 1) return std::nullopt;
  if (item.count <= counts->min || item.count >= counts->max) return std::nullopt;
  return counts->max - item.count - 1;
}

// Far from the bound, the same tokens of at most `safe` bytes are allowed. Only longer tokens are followed.
TokenMasks::Local TokenMasks::shortened(const Item& item, std::uint32_t safe) {
  const TokenTrie& trie = vocabulary_->trie();
  const Automaton& automaton = machine_->automaton();
  Local local = local_of({item.place, automaton.rules[automaton.positions[item.place].rule].min});
  std::erase_if(local.rule_ends, [&](std::uint32_t node) { return trie.node(node).depth > safe; });
  path_.resize(trie.depth() + 1);
  path_[0] = machine_->state_of({{item.place, item.count}});
  for (std::uint32_t index = 1; index < trie.size();) {
    const TokenTrie::Node& node = trie.node(index);
    machine_->charge(1);
    const StateId next = node.deepest > safe ? machine_->next(path_[node.depth - 1], node.byte) : kDead;
    if (next == kDead) {
      if (node.deepest > safe) {
        for (const TokenId id : trie.tokens_below(index)) local.within.remove(id);
      }
      index = node.end;
      continue;
    }
    path_[node.depth] = next;
    if (node.depth > safe && machine_->ends(next) && node.end > index + 1) local.rule_ends.push_back(index);
    ++index;
  }
  return local;
}

// Tokens are too short to distinguish counts that are far from both bounds.
std::uint32_t TokenMasks::representative(const Item& item) const {
  const Automaton& automaton = machine_->automaton();
  const auto counts = counts_of(automaton.rules[automaton.positions[item.place].rule]);
  if (!counts) return 0;
  const std::size_t longest = vocabulary_->trie().depth() + 1;
  if (counts->starts_alike && item.count + longest < std::min(counts->min, counts->max)) return 0;
  if (item.count >= counts->min && item.count + longest < counts->max) return counts->min;
  return item.count;
}

}  // namespace tp::constraint
