#include "runtime/constraint/regex_tree.h"

#include <algorithm>
#include <utility>

namespace tp::constraint {
namespace {

using Kind = RegexNode::Kind;

constexpr std::uint64_t kNoLimit = kUnbounded;

bool has_anchor(const RegexNode& node) {
  if (node.kind == Kind::text_begin || node.kind == Kind::text_end) return true;
  return std::ranges::any_of(node.parts, has_anchor);
}

// An alternative without anchors, and whether it had one at its ends.
struct Branch {
  bool at_begin = false;
  bool at_end = false;
  RegexNode node{};
};

// Finds the alternatives of an expression. It fails for anchors in other places, and for too many
// alternatives.
class BranchFinder {
 public:
  bool failed() const { return failed_; }

  std::vector<Branch> branches_of(const RegexNode& node) {
    if (node.kind == Kind::text_begin) return {{.at_begin = true}};
    if (node.kind == Kind::text_end) return {{.at_end = true}};
    if (!has_anchor(node)) return {{.node = node}};
    if (node.kind == Kind::sequence) return branches_of_sequence(node.parts);
    std::vector<Branch> all;
    failed_ |= node.kind != Kind::choice;
    for (const RegexNode& part : node.parts) {
      std::vector<Branch> some = branches_of(part);
      std::ranges::move(some, std::back_inserter(all));
    }
    return all;
  }

 private:
  static constexpr std::size_t kMaxBranches = 1000;

  std::vector<Branch> branches_of_sequence(const std::vector<RegexNode>& parts) {
    std::vector<Branch> branches = {Branch()};
    for (std::size_t i = 0; i < parts.size() && !failed_; ++i) {
      const std::vector<Branch> next = branches_of(parts[i]);
      const bool is_first =
          std::ranges::none_of(branches, [](const Branch& b) { return !b.node.parts.empty(); });
      const bool begins = std::ranges::any_of(next, &Branch::at_begin);
      const bool ended = std::ranges::any_of(branches, &Branch::at_end);
      // Behind an end there may only be another one.
      failed_ |= (begins && !is_first) || (ended && parts[i].kind != Kind::text_end) ||
                 branches.size() * next.size() > kMaxBranches;
      if (failed_) break;
      std::vector<Branch> joined;
      for (const Branch& left : branches) {
        for (const Branch& right : next) {
          Branch both = left;
          both.at_begin |= right.at_begin;
          both.at_end |= right.at_end;
          both.node.parts.push_back(right.node);
          joined.push_back(std::move(both));
        }
      }
      for (Branch& branch : joined) {
        if (branch.node.parts.size() == 1 && branch.node.parts.front().kind == Kind::sequence &&
            branch.node.parts.front().parts.empty())
          branch.node.parts.clear();  // of an anchor
      }
      branches = std::move(joined);
    }
    return branches;
  }

  bool failed_ = false;
};

bool looks_around(const RegexNode& node) {
  return node.kind == Kind::ahead || node.kind == Kind::word_edge ||
         std::ranges::any_of(node.parts, looks_around);
}

class RegexEmitter {
 public:
  RegexEmitter(ByteGrammar& grammar, const CharacterExpr& character)
      : grammar_(grammar), character_(character) {}

  ExprId operator()(const RegexNode& node) const {
    if (node.kind == Kind::characters) return character_(node.characters);
    std::vector<ExprId> parts;
    for (const RegexNode& part : node.parts) parts.push_back((*this)(part));
    if (node.kind == Kind::repeat) return grammar_.repeat(parts.front(), node.min, node.max);
    return node.kind == Kind::choice ? grammar_.choice(std::move(parts))
                                     : grammar_.sequence(std::move(parts));
  }

 private:
  ByteGrammar& grammar_;
  const CharacterExpr& character_;
};

}  // namespace

MatchLength match_length(const RegexNode& node) {
  if (node.kind == Kind::characters) return {1, 1};
  if (node.kind == Kind::text_begin || node.kind == Kind::text_end) return {0, 0};
  MatchLength all;
  if (node.kind == Kind::choice) all.min = kNoLimit;
  for (const RegexNode& node_part : node.parts) {
    const MatchLength part = match_length(node_part);
    if (node.kind == Kind::choice) {
      all = {std::min(all.min, part.min), std::max(all.max, part.max)};
    } else if (node.kind == Kind::repeat) {
      const bool unbounded = part.max > 0 && (node.max == kUnbounded || part.max == kNoLimit);
      all = {part.min * node.min, unbounded ? kNoLimit : part.max * node.max};
    } else {
      all = {all.min + part.min, all.max + part.max};
    }
  }
  return {std::min(all.min, kNoLimit), std::min(all.max, kNoLimit)};
}

namespace {

// The parts of a sequence, without the sequences in it.
void add_parts(const RegexNode& node, std::vector<RegexNode>& parts) {
  if (node.kind != Kind::sequence) return parts.push_back(node);
  for (const RegexNode& part : node.parts) add_parts(part, parts);
}

// Changes the bounds of the only part whose length varies.
bool fit_length(std::vector<RegexNode>& parts, MatchLength wanted) {
  MatchLength others;
  RegexNode* varying = nullptr;
  for (RegexNode& part : parts) {
    const MatchLength length = match_length(part);
    if (length.min == length.max) {
      others.min += length.min;
    } else if (varying == nullptr && part.kind == Kind::repeat) {
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
  RegexNode fitting{.kind = Kind::choice};
  for (const Branch& branch : BranchFinder().branches_of(node)) {
    const bool is_whole = match == RegexMatch::whole || (branch.at_begin && branch.at_end);
    const MatchLength length = match_length(branch.node);
    const bool has_it =
        length.min >= wanted.min && (wanted.max == kNoLimit || (is_whole && length.max <= wanted.max));
    RegexNode& fitted = fitting.parts.emplace_back(RegexNode{.kind = Kind::sequence});
    if (has_it) {
      fitted.parts.push_back(branch.node);
    } else {
      add_parts(branch.node, fitted.parts);
      if (!is_whole || !fit_length(fitted.parts, wanted)) return std::nullopt;
    }
    if (branch.at_begin) fitted.parts.insert(fitted.parts.begin(), RegexNode{.kind = Kind::text_begin});
    if (branch.at_end) fitted.parts.push_back({.kind = Kind::text_end});
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
