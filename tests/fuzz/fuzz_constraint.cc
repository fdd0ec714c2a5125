// Constraints from any text. The first byte selects a JSON Schema, a regular expression, a grammar in Lark's
// notation, or GBNF. The rest of the input walks through the compiled constraint. Seeds:
// tests/data/constraints.
#include "runtime/constraint/constraint_compiler.h"
#include "runtime/constraint/grammar/automaton.h"
#include "runtime/constraint/grammar/lark_reader.h"
#include "runtime/constraint/schema/json_grammar.h"
#include "tests/fuzz/grammar_walk.h"
#include "tp/error.h"

#include <cstdint>
#include <string>

namespace {

tp::constraint::ByteGrammar grammar_of(std::uint8_t kind, const std::string& text) {
  if (kind == 's') return tp::constraint::grammar_of(tp::constraint::JsonSchema{text});
  if (kind == 'r') return tp::constraint::grammar_of(tp::constraint::Regex{text});
  if (kind != 'l') return tp::constraint::grammar_of(tp::constraint::Grammar{text});
  tp::constraint::ByteGrammar grammar;
  grammar.root = grammar.add_rule();
  tp::constraint::JsonGrammar json(grammar, tp::constraint::JsonSpace::flexible);
  const auto character = [&](const tp::constraint::CodePoints& set) { return json.character(set); };
  grammar.define(grammar.root, json.quoted(tp::constraint::lark_expr(grammar, text, character)));
  return grammar;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    const tp::constraint::Automaton automaton = tp::constraint::build_automaton(grammar_of(data[0], text));
    tp::constraint::walk(automaton, text);
  } catch (const tp::RequestError&) {
    // Invalid, unsupported or too large constraints must be rejected.
  }
  return 0;
}
