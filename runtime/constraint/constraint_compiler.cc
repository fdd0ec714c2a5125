#include "runtime/constraint/constraint_compiler.h"

#include "model/tokenizer/text/utf8.h"
#include "runtime/constraint/gbnf_reader.h"
#include "runtime/constraint/grammar/code_points.h"
#include "runtime/constraint/grammar/matching_texts.h"
#include "runtime/constraint/schema/json_schema.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <variant>

namespace tp::constraint {
namespace {

constexpr std::size_t kMaxKept = 64;
constexpr std::size_t kMaxMachineBytes = std::size_t{32} << 20;  // a larger constraint is compiled anew

// Adds the texts that a constraint allows to a grammar.
class ConstraintReader {
 public:
  ConstraintReader(ByteGrammar& grammar, const ByteVocabulary* vocabulary)
      : grammar_(grammar), vocabulary_(vocabulary) {}

  ExprId operator()(const Regex& regex) const {
    return matching_text(grammar_, read_regex("the regular expression", regex.pattern));
  }

  ExprId operator()(const Choice& choice) const {
    require<RequestError>(!choice.texts.empty(), "the choice has no texts (expected at least one); add some");
    std::vector<ExprId> texts;
    for (const std::string& text : choice.texts) {
      require<RequestError>(utf8::is_valid(text), "a text of the choice is not UTF-8; correct it");
      texts.push_back(grammar_.text(text));
    }
    return grammar_.choice(std::move(texts));
  }

  ExprId operator()(const Grammar& grammar) const { return gbnf_expr(grammar_, grammar.gbnf, vocabulary_); }
  ExprId operator()(const JsonSchema& schema) const {
    return json_schema_expr(grammar_, schema.schema, schema.space);
  }
  ExprId operator()(const JsonObject& object) const {
    return json_schema_expr(grammar_, R"({"type": "object"})", object.space);
  }

 private:
  ByteGrammar& grammar_;
  const ByteVocabulary* vocabulary_;
};

std::string part_of_key(const JsonSchema& schema) {
  return schema.schema + (schema.space == JsonSpace::compact ? "c" : "f");
}
std::string part_of_key(const JsonObject& object) { return object.space == JsonSpace::compact ? "c" : "f"; }
std::string part_of_key(const Regex& regex) { return regex.pattern; }
std::string part_of_key(const Grammar& grammar) { return grammar.gbnf; }
std::string part_of_key(const Choice& choice) {
  std::string all;
  for (const std::string& text : choice.texts) all += std::to_string(text.size()) + ":" + text;
  return all;
}

std::string key_of(const Constraint& constraint, std::string_view frame) {
  return fmt::format("{} {} {}{}", constraint.index(), frame.size(), frame,
                     std::visit([](const auto& kind) { return part_of_key(kind); }, constraint));
}

}  // namespace

ByteGrammar grammar_of(const Constraint& constraint, std::string_view frame, const ByteVocabulary* vocabulary,
                       ByteGrammar grammar) {
  grammar.root = grammar.add_rule();
  const ExprId text = std::visit(ConstraintReader(grammar, vocabulary), constraint);
  grammar.define(grammar.root, frame.empty() ? text : gbnf_expr(grammar, frame, vocabulary, text));
  return grammar;
}

std::shared_ptr<const ByteVocabulary> ConstraintCompiler::vocabulary() {
  std::call_once(vocabulary_made_, [&] {
    vocabulary_ = std::make_shared<const ByteVocabulary>(*tokenizer_, vocab_size_, ends_);
  });
  return vocabulary_;
}

std::shared_ptr<CompiledConstraint> ConstraintCompiler::compile(const Constraint& constraint,
                                                                std::string_view frame) {
  const std::string key = key_of(constraint, frame);
  if (auto known = find(key)) return known;
  const std::shared_ptr<const ByteVocabulary> tokens = vocabulary();
  auto compiled = std::make_shared<CompiledConstraint>(tokens, grammar_of(constraint, frame, tokens.get()));
  keep(key, compiled);
  return compiled;
}

std::shared_ptr<CompiledConstraint> ConstraintCompiler::find(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  const std::shared_ptr<CompiledConstraint> compiled = found->second.compiled;
  {
    const std::scoped_lock in_use(compiled->mutex);
    if (compiled->machine.bytes() > kMaxMachineBytes) {
      entries_.erase(found);
      return nullptr;
    }
  }
  found->second.last_use = ++uses_;
  forget_oldest();
  return compiled;
}

void ConstraintCompiler::keep(const std::string& key, std::shared_ptr<CompiledConstraint> compiled) {
  const std::scoped_lock lock(mutex_);
  const std::size_t bytes = compiled->bytes();  // no other thread knows it
  entries_[key] = {std::move(compiled), ++uses_, bytes};
  forget_oldest();
}

// Constraints grow while they are used. A constraint in use is not waited for: its bytes are those of the
// last count.
void ConstraintCompiler::forget_oldest() {
  std::size_t bytes = 0;
  for (auto& [key, entry] : entries_) {
    const std::unique_lock<std::mutex> lock(entry.compiled->mutex, std::try_to_lock);
    if (lock) entry.bytes = entry.compiled->bytes();
    bytes += entry.bytes;
  }
  while (entries_.size() > kMaxKept || (bytes > max_kept_bytes_ && !entries_.empty())) {
    const auto oldest =
        std::ranges::min_element(entries_, {}, [](const auto& entry) { return entry.second.last_use; });
    bytes -= oldest->second.bytes;
    entries_.erase(oldest);
  }
}

}  // namespace tp::constraint
