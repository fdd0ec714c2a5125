#include "runtime/constraint/completions.h"

#include <algorithm>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tp::constraint {
namespace {

// In units of StateMachine::charge: the work for each step of a search, and for each text that it finds.
constexpr std::uint64_t kStepWork = 16;
constexpr std::uint64_t kNodeWork = 16;

// Whether a control token can be generated.
bool is_usable(TokenId id, const ByteVocabulary& vocabulary, const TokenMask& usable) {
  return static_cast<std::size_t>(id) < vocabulary.size() && usable.contains(id) &&
         vocabulary.bytes(id) == control_text(id);
}

}  // namespace

Completions::Completions(const ByteVocabulary& vocabulary, StateMachine& machine, const TokenMask& usable)
    : machine_(machine) {
  const Automaton& automaton = machine.automaton();
  ByteSet singles;
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view bytes = vocabulary.bytes(static_cast<TokenId>(id));
    if (bytes.size() == 1 && usable.contains(static_cast<TokenId>(id)))
      singles.set(static_cast<std::uint8_t>(bytes[0]));
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    if (singles[byte]) byte_of_class_[automaton.class_of[byte]] = static_cast<std::uint8_t>(byte);
  }
  ByteSet needed = automaton.alphabet & ~singles;
  if (std::ranges::all_of(automaton.controls, [&](TokenId id) { return is_usable(id, vocabulary, usable); }))
    needed.reset(kControlByte);
  is_certain_ = needed.none();
  if (is_certain_) return;
  std::vector<std::string> others;
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view bytes = vocabulary.bytes(static_cast<TokenId>(id));
    const auto in = [](const ByteSet& set) {
      return [&set](char byte) { return set[static_cast<std::uint8_t>(byte)]; };
    };
    if (bytes.size() > 1 && usable.contains(static_cast<TokenId>(id)) &&
        !std::ranges::all_of(bytes, in(singles)) && std::ranges::all_of(bytes, in(automaton.alphabet)))
      others.emplace_back(bytes);
  }
  others_ = TokenTrie(others);
}

// Searches for a completion, the nearest end first.
class Completions::Search {
 public:
  Search(Completions& completions, StateId start, std::size_t tokens)
      : all_(completions), least_tokens_(tokens) {
    add({start, 0, tokens, kNone});
  }

  // Returns whether it has found a completion. Records the result for the states that it has visited. Throws
  // RequestError if the machine's limit of work is reached.
  bool run() {
    constexpr std::size_t kMaxSteps = 20000;
    for (std::size_t steps = 0; !open_.empty(); ++steps) {
      if (steps == kMaxSteps) {
        note_given_up();
        return false;
      }
      all_.machine_.charge(all_.machine_.automaton().classes + kStepWork);
      const std::size_t index = std::get<2>(open_.top());
      open_.pop();
      const Node node = nodes_[index];
      least_tokens_ = std::min(least_tokens_, node.tokens);
      if (node.trie_node == 0 && is_complete(node)) {
        note_possible(index);
        return true;
      }
      if (node.trie_node == 0) add_bytes(node, index);
      add_others(node, index);
    }
    note_impossible(0, nodes_.size());
    return false;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Node {
    StateId state;
    std::uint32_t trie_node;  // node within a token of several bytes; 0: between tokens
    std::size_t tokens;       // number of tokens that are still needed
    std::size_t parent;
  };

  bool is_complete(const Node& node) const {
    if (node.tokens == 0 && all_.machine_.ends(node.state)) return true;
    const auto known = all_.known_.find(node.state);
    return known != all_.known_.end() && known->second.possible && *known->second.possible >= node.tokens;
  }

  void add(const Node& node) {
    if (node.state == kDead || !seen_.emplace(node.state, node.trie_node, node.tokens).second) return;
    all_.machine_.charge(kNodeWork);
    open_.emplace(node.tokens, all_.distances_->after(node.state), nodes_.size());
    nodes_.push_back(node);
  }

  static std::size_t one_less(std::size_t tokens) { return tokens == 0 ? 0 : tokens - 1; }

  void add_bytes(const Node& node, std::size_t index) {
    for (std::size_t i = 0; i < all_.machine_.automaton().classes; ++i) {
      if (const std::optional<std::uint8_t> byte = all_.byte_of_class_[i])
        add({all_.machine_.next(node.state, *byte), 0, one_less(node.tokens), index});
    }
  }

  void add_others(const Node& node, std::size_t index) {
    const TokenTrie& trie = all_.others_;
    for (std::uint32_t child = node.trie_node + 1; child < trie.node(node.trie_node).end;
         child = trie.node(child).end) {
      all_.machine_.charge(1);
      const StateId next = all_.machine_.next(node.state, trie.node(child).byte);
      add({next, child, node.tokens, index});
      if (!trie.tokens(child).empty()) add({next, 0, one_less(node.tokens), index});
    }
  }

  void note_possible(std::size_t index) {
    for (; index != kNone; index = nodes_[index].parent) {
      const Node& node = nodes_[index];
      auto& possible = all_.known_[node.state].possible;
      if (node.trie_node == 0 && (!possible || *possible < node.tokens)) possible = node.tokens;
    }
  }

  // The search counts tokens down first. So a search with fewer tokens gives up, too, if this search has not
  // counted down as many.
  void note_given_up() {
    const std::size_t tokens = nodes_.front().tokens;
    const std::size_t counted = tokens - least_tokens_;
    auto& impossible = all_.known_[nodes_.front().state].impossible;
    const std::size_t least = std::min(tokens, counted + 1);
    if (!impossible || *impossible > least) impossible = least;
  }

  void note_impossible(std::size_t begin, std::size_t end) {
    for (std::size_t index = begin; index < end; ++index) {
      const Node& node = nodes_[index];
      auto& impossible = all_.known_[node.state].impossible;
      if (node.trie_node == 0 && (!impossible || *impossible > node.tokens)) impossible = node.tokens;
    }
  }

  Completions& all_;
  std::size_t least_tokens_;  // least number of tokens that a visited text still needs
  std::vector<Node> nodes_;
  std::set<std::tuple<StateId, std::uint32_t, std::size_t>> seen_;
  using Entry = std::tuple<std::size_t, std::uint64_t, std::size_t>;  // tokens, distance, index of the node
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
};

bool Completions::possible(StateId state, std::size_t tokens) {
  if (state == kDead) return false;
  if (is_certain_ && tokens == 0) return true;
  if (const auto known = known_.find(state); known != known_.end()) {
    if (known->second.possible && *known->second.possible >= tokens) return true;
    if (known->second.impossible && *known->second.impossible <= tokens) return false;
  }
  if (!distances_) distances_.emplace(machine_);
  return Search(*this, state, tokens).run();
}

}  // namespace tp::constraint
