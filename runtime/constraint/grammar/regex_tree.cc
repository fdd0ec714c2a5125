#include "runtime/constraint/grammar/regex_tree.h"

#include <algorithm>
#include <utility>

namespace tp::constraint {
namespace {

using RegexKind = RegexNode::Kind;

constexpr std::uint64_t kNoLimit = kUnbounded;

bool has_anchor(const RegexNode& node) {
  if (node.kind == RegexKind::text_begin || node.kind == RegexKind::text_end) return true;
  return std::ranges::any_of(node.parts, has_anchor);
}

std::size_t nodes_of(const RegexNode& node) {
  std::size_t nodes = 1;
  for (const RegexNode& part : node.parts) nodes += nodes_of(part);
  return nodes;
}

// An alternative without its anchors, and whether it had anchors at its ends.
struct Branch {
  bool at_begin = false;
  bool at_end = false;
  RegexNode node{};
};

// Finds the alternatives of an expression. Fails if anchors are elsewhere, or if there are too many
// alternatives.
class BranchFinder {
 public:
  bool failed() const { return failed_; }

  std::vector<Branch> branches_of(const RegexNode& node) {
    if (node.kind == RegexKind::text_begin) return {{.at_begin = true}};
    if (node.kind == RegexKind::text_end) return {{.at_end = true}};
    if (!has_anchor(node)) return {{.node = node}};
    if (node.kind == RegexKind::sequence) return branches_of_sequence(node);
    std::vector<Branch> all;
    failed_ |= node.kind != RegexKind::choice;
    for (const RegexNode& part : node.parts) {
      std::vector<Branch> some = branches_of(part);
      std::ranges::move(some, std::back_inserter(all));
    }
    return all;
  }

 private:
  static constexpr std::size_t kMaxBranches = 1000;
  static constexpr std::size_t kMaxCopied = 400000;

  std::vector<Branch> branches_of_sequence(const RegexNode& sequence) {
    std::vector<Branch> branches = {Branch()};
    const std::size_t nodes = nodes_of(sequence);
    for (const RegexNode& part : sequence.parts) {
      const std::vector<Branch> next = branches_of(part);
      const bool is_first =
          std::ranges::none_of(branches, [](const Branch& b) { return !b.node.parts.empty(); });
      const bool begins = std::ranges::any_of(next, &Branch::at_begin);
      const bool ended = std::ranges::any_of(branches, &Branch::at_end);
      // Only another end may follow an end.
      copied_ += branches.size() * next.size() * (next.size() == 1 ? nodes_of(next.front().node) : nodes);
      failed_ |= (begins && !is_first) || (ended && part.kind != RegexKind::text_end) ||
                 branches.size() * next.size() > kMaxBranches || copied_ > kMaxCopied;
      if (failed_) break;
      if (next.size() > 1) branches = repeated(branches, next.size());
      for (std::size_t branch = 0; branch < branches.size(); ++branch)
        append(next[branch % next.size()], branches[branch]);
    }
    return branches;
  }

  // Copies each branch several times in a row.
  static std::vector<Branch> repeated(const std::vector<Branch>& branches, std::size_t count) {
    std::vector<Branch> all;
    for (const Branch& branch : branches) all.insert(all.end(), count, branch);
    return all;
  }

  static void append(const Branch& next, Branch& branch) {
    branch.at_begin |= next.at_begin;
    branch.at_end |= next.at_end;
    const bool is_anchor = next.node.kind == RegexKind::sequence && next.node.parts.empty();
    if (!is_anchor || !branch.node.parts.empty()) branch.node.parts.push_back(next.node);
  }

  bool failed_ = false;
  std::size_t copied_ = 0;  // number of nodes
};

bool looks_around(const RegexNode& node) {
  return node.kind == RegexKind::ahead || node.kind == RegexKind::word_edge ||
         std::ranges::any_of(node.parts, looks_around);
}

class RegexEmitter {
 public:
  RegexEmitter(ByteGrammar& grammar, const CharacterExpr& character)
      : grammar_(grammar), character_(character) {}

  ExprId operator()(const RegexNode& node) const {
    if (node.kind == RegexKind::characters) return character_(node.characters);
    std::vector<ExprId> parts;
    for (const RegexNode& part : node.parts) parts.push_back((*this)(part));
    if (node.kind == RegexKind::repeat) return grammar_.repeat(parts.front(), node.min, node.max);
    return node.kind == RegexKind::choice ? grammar_.choice(std::move(parts))
                                          : grammar_.sequence(std::move(parts));
  }

 private:
  ByteGrammar& grammar_;
  const CharacterExpr& character_;
};

}  // namespace

MatchLength match_length(const RegexNode& node) {
  if (node.kind == RegexKind::characters) return {1, 1};
  if (node.kind == RegexKind::text_begin || node.kind == RegexKind::text_end) return {0, 0};
  MatchLength all;
  if (node.kind == RegexKind::choice) all.min = kNoLimit;
  for (const RegexNode& node_part : node.parts) {
    const MatchLength part = match_length(node_part);
    if (node.kind == RegexKind::choice) {
      all = {std::min(all.min, part.min), std::max(all.max, part.max)};
    } else if (node.kind == RegexKind::repeat) {
      const bool unbounded = part.max > 0 && (node.max == kUnbounded || part.max == kNoLimit);
      all = {part.min * node.min, unbounded ? kNoLimit : part.max * node.max};
    } else {
      all = {all.min + part.min, all.max + part.max};
    }
  }
  return {std::min(all.min, kNoLimit), std::min(all.max, kNoLimit)};
}

namespace {

// Adds the parts of a sequence, and flattens sequences in it.
void add_parts(const RegexNode& node, std::vector<RegexNode>& parts) {
  if (node.kind != RegexKind::sequence) return parts.push_back(node);
  for (const RegexNode& part : node.parts) add_parts(part, parts);
}

// Changes the bounds of the only part with a variable length.
bool fit_length(std::vector<RegexNode>& parts, MatchLength wanted) {
  MatchLength others;
  RegexNode* varying = nullptr;
  for (RegexNode& part : parts) {
    const MatchLength length = match_length(part);
    if (length.min == length.max) {
      others.min += length.min;
    } else if (varying == nullptr && part.kind == RegexKind::repeat) {
      varying = &part;
    } else {
      return false;
    }
  }
  if (varying == nullptr) return others.min >= wanted.min && others.min <= wanted.max;
  const MatchLength each = match_length(varying->parts.front());
  if (each.min != each.max || others.min > wanted.max) return false;
  const std::uint64_t missing = wanted.min > others.min ? wanted.min - others.min : 0;
  varying->min =
      std::max<std::uint32_t>(varying->min, static_cast<std::uint32_t>((missing + each.min - 1) / each.min));
  if (wanted.max != kNoLimit)
    varying->max = std::min<std::uint32_t>(varying->max,
                                           static_cast<std::uint32_t>((wanted.max - others.min) / each.min));
  return varying->min <= varying->max;
}

}  // namespace

bool is_plain(const RegexNode& node) {
  if (looks_around(node)) return false;
  BranchFinder finder;
  finder.branches_of(node);
  return !finder.failed();
}

std::optional<RegexNode> with_length(const RegexNode& node, RegexMatch match, MatchLength wanted) {
  RegexNode fitting{.kind = RegexKind::choice};
  for (const Branch& branch : BranchFinder().branches_of(node)) {
    const bool is_whole = match == RegexMatch::whole || (branch.at_begin && branch.at_end);
    const MatchLength length = match_length(branch.node);
    const bool has_it =
        length.min >= wanted.min && (wanted.max == kNoLimit || (is_whole && length.max <= wanted.max));
    RegexNode& fitted = fitting.parts.emplace_back(RegexNode{.kind = RegexKind::sequence});
    if (has_it) {
      fitted.parts.push_back(branch.node);
    } else {
      add_parts(branch.node, fitted.parts);
      if (!is_whole || !fit_length(fitted.parts, wanted)) return std::nullopt;
    }
    if (branch.at_begin) fitted.parts.insert(fitted.parts.begin(), RegexNode{.kind = RegexKind::text_begin});
    if (branch.at_end) fitted.parts.push_back({.kind = RegexKind::text_end});
  }
  return fitting;
}

ExprId regex_expr(ByteGrammar& grammar, const RegexNode& node, RegexMatch match,
                  const CharacterExpr& character) {
  const RegexEmitter emit(grammar, character);
  std::vector<ExprId> choices;
  for (const Branch& branch : BranchFinder().branches_of(node)) {
    std::vector<ExprId> parts;
    const auto add_anything = [&] {
      parts.push_back(grammar.repeat(character(CodePoints::all()), 0, kUnbounded));
    };
    if (match == RegexMatch::search && !branch.at_begin) add_anything();
    parts.push_back(emit(branch.node));
    if (match == RegexMatch::search && !branch.at_end) add_anything();
    choices.push_back(grammar.sequence(std::move(parts)));
  }
  return grammar.choice(std::move(choices));
}

}  // namespace tp::constraint
