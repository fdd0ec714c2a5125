#include "runtime/constraint/grammar/state_machine.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <set>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxItems = 4096;
constexpr std::uint64_t kItemWork = 16;
constexpr std::uint64_t kCallWork = 4;  // each call adds an entry to the waiters
constexpr std::size_t kMaxStateBytes = std::size_t{256} << 20;

void require_few(std::size_t items) {
  require<RequestError>(items <= kMaxItems,
                        "the constraint is too ambiguous: expected at most {} ways to read a text at the "
                        "same time, found more; simplify it",
                        kMaxItems);
}

void sort_and_unique(std::vector<Item>& items) {
  std::ranges::sort(items);
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

}  // namespace

// Adds the items that follow from a state's items without a further byte.
class StateMachine::Closure {
 public:
  Closure(const StateMachine& machine, StateId id, State& state)
      : machine_(machine), automaton_(*machine.automaton_), id_(id), state_(state) {}

  void add_root(const Item& item) {
    if (!seen_.insert(item).second) return;
    state_.roots.push_back(item);
    push(item);
  }

  void run() {
    while (!open_.empty()) {
      const Item item = open_.back();
      open_.pop_back();
      visit(item);
    }
    std::ranges::sort(state_.waiters);
  }

 private:
  void add(const Item& item) {
    if (seen_.insert(item).second) push(item);
  }

  void push(const Item& item) {
    machine_.charge(kItemWork);
    require_few(seen_.size());
    open_.push_back(item);
  }

  void visit(const Item& item) {
    const Automaton::Position& position = automaton_.positions[item.place];
    const Automaton::Rule& rule = automaton_.rules[position.rule];
    machine_.charge(position.empties.size() + position.steps.size() + kCallWork * position.calls.size());
    if (!position.bytes.empty()) state_.active.push_back(item);
    for (const Place target : position.empties) add({target, item.count, item.origin, item.called_as});
    if (rule.is_repetition && item.place == rule.start) {
      if (item.count < rule.max) add({rule.body, item.count, item.origin, item.called_as});
      if (item.count >= rule.min) end_rule(item.called_as, item.origin);
    }
    if (position.repeats) {
      const std::uint32_t max = rule.max == kUnbounded ? rule.min : rule.max;
      add({rule.start, std::min(item.count + 1, max), item.origin, item.called_as});
    }
    for (const Automaton::Step& step : position.steps) {
      if (rule.steps->can_end(step.state, rule.steps->count_after(item.count)))
        add({step.target, item.count, item.origin, item.called_as});
    }
    if (position.after_step)
      add({*position.after_step, rule.steps->count_after(item.count), item.origin, item.called_as});
    if (position.ends && item.count >= rule.min) end_rule(item.called_as, item.origin);
    for (const Automaton::Call& call : position.calls) begin_rule(call, item);
  }

  // A caller that ends together with the called rule need not wait for it, so that repetition by recursion
  // takes no memory.
  void begin_rule(const Automaton::Call& call, const Item& caller) {
    const Automaton::Rule& rule = automaton_.rules[call.rule];
    const Item after{call.target, caller.count, caller.origin, caller.called_as};
    if (automaton_.positions[call.target].ends) {
      add({rule.start, 0, caller.origin, caller.called_as});
    } else {
      state_.waiters.push_back({call.rule, after});
      add({rule.start, 0, id_, call.rule});
    }
    if (rule.nullable) add(after);
  }

  void end_rule(RuleId rule, StateId origin) {
    if (origin == kOutside) state_.ends = true;
    // A rule that begins and ends here is empty: begin_rule() has handled it (`nullable`).
    if (origin == kOutside || origin == id_) return;
    const std::vector<Waiter>& waiters = machine_.states_[origin].waiters;
    auto waiter = std::ranges::lower_bound(waiters, rule, {}, &Waiter::rule);
    for (; waiter != waiters.end() && waiter->rule == rule; ++waiter) {
      machine_.charge(1);
      add_root(waiter->item);
    }
  }

  const StateMachine& machine_;
  const Automaton& automaton_;
  StateId id_;
  State& state_;
  std::set<Item> seen_;
  std::vector<Item> open_;
};

std::size_t StateMachine::ItemsHash::operator()(const std::vector<Item>& items) const {
  std::uint64_t hash = 0x9E3779B97F4A7C15;
  for (const Item& item : items) {
    for (const std::uint64_t part :
         {std::uint64_t{item.place} << 32 | item.count, std::uint64_t{item.origin} << 32 | item.called_as}) {
      hash = (hash ^ part) * 0xFF51AFD7ED558CCD;
      hash ^= hash >> 32;
    }
  }
  return hash;
}

void StateMachine::fail_for_work() {
  throw_error<RequestError>(
      "the constraint takes too long: expected fewer ways to read a text, found more than can be followed in "
      "time; simplify it");
}

StateId StateMachine::state_of(std::vector<Item> items) {
  if (items.empty()) return kDead;
  sort_and_unique(items);
  if (const auto known = ids_.find(items); known != ids_.end()) return known->second;
  const StateId id = add_state(items);
  ids_.emplace(std::move(items), id);
  return id;
}

StateId StateMachine::add_state(const std::vector<Item>& items) {
  require<RequestError>(bytes_ < kMaxStateBytes,
                        "the constraint needs too much memory: expected at most {} MiB for the states of its "
                        "automaton, found more; simplify it, or bound its repetitions",
                        kMaxStateBytes >> 20);
  const auto id = static_cast<StateId>(states_.size());
  State state;
  Closure closure(*this, id, state);
  for (const Item& item : items) closure.add_root(item);
  closure.run();
  bytes_ += sizeof(State) + 64 + automaton_->classes * sizeof(StateId) +
            sizeof(Waiter) * state.waiters.size() +
            sizeof(Item) * (items.size() + state.roots.size() + state.active.size());
  states_.push_back(std::move(state));
  next_.insert(next_.end(), automaton_->classes, kUnknown);
  return id;
}

StateId StateMachine::compute_next(StateId state, std::uint8_t byte_class) {
  constexpr std::size_t kMaxCollected = 8 * kMaxItems;  // more are sorted before others are added
  std::vector<Item> items;
  for (const Item& item : states_[state].active) {
    const std::vector<Automaton::ByteEdge>& edges = automaton_->positions[item.place].bytes;
    charge(edges.size());
    for (const Automaton::ByteEdge& edge : edges) {
      if (automaton_->sets[edge.set][byte_class])
        items.push_back({edge.target, item.count, item.origin, item.called_as});
    }
    if (items.size() <= kMaxCollected) continue;
    sort_and_unique(items);
    require_few(items.size());
  }
  const StateId next = state_of(std::move(items));
  return next_[state * automaton_->classes + byte_class] = next;
}

std::optional<std::uint8_t> StateMachine::forced_byte(StateId state) const {
  if (ends(state)) return std::nullopt;
  ClassSet classes;
  for (const Item& item : states_[state].active) {
    for (const Automaton::ByteEdge& edge : automaton_->positions[item.place].bytes) {
      charge(1);
      classes |= automaton_->sets[edge.set];
      if (classes.count() > 1) return std::nullopt;
    }
  }
  if (classes.none()) return std::nullopt;
  return automaton_->only_byte[classes._Find_first()];
}

StateId StateMachine::after_rule(StateId origin, RuleId rule) {
  const std::uint64_t key = std::uint64_t{origin} << 32 | rule;
  if (const auto known = after_rules_.find(key); known != after_rules_.end()) return known->second;
  const std::vector<Waiter>& waiters = states_[origin].waiters;
  std::vector<Item> items;
  auto waiter = std::ranges::lower_bound(waiters, rule, {}, &Waiter::rule);
  for (; waiter != waiters.end() && waiter->rule == rule; ++waiter) items.push_back(waiter->item);
  const StateId state = state_of(std::move(items));
  after_rules_.emplace(key, state);
  return state;
}

}  // namespace tp::constraint
