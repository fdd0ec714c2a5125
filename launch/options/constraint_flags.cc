#include "launch/options/constraint_flags.h"

#include "launch/common/option_group.h"
#include "launch/options/prompts.h"
#include "runtime/constraint/constraint_compiler.h"

namespace tp {
namespace {

constexpr std::size_t kMaxFile = 1 << 20;  // bytes

// JSON begins with a brace or is a word. File names seldom look like this.
bool is_schema(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return (begin != std::string::npos && text[begin] == '{') || text == "true" || text == "false";
}

}  // namespace

void ConstraintFlags::add_to(CLI::App& command) {
  const OptionGroup group(command, "Constraints on whole continuations (at most one)");
  group.add("--json-schema", json_schema, "FILE|TEXT", not_empty("a file or a schema"),
            "JSON that matches this JSON Schema (drafts 4 to 2020-12, OpenAPI)");
  group.add_flag("--json-object", json_object, "Any JSON object");
  group.add_choice("--json-space", json_space, "SPACE", {"flexible", "compact"},
                   "White space of generated JSON: flexible (at most one space, or one line break with an "
                   "indentation), compact (none)");
  group.add("--regex", regex, "PATTERN", not_empty("a regular expression"),
            "A text that this regular expression matches completely");
  group.add_text("--choice", choice, "One of several texts; give --choice once for each of them")
      ->allow_extra_args(false);
  group.add_file("--grammar", grammar_file, "A text of this grammar, in GBNF");
}

void ConstraintFlags::check() const {
  const int given = static_cast<int>(json_schema.has_value()) + static_cast<int>(json_object) +
                    static_cast<int>(regex.has_value()) + static_cast<int>(!choice.empty()) +
                    static_cast<int>(grammar_file.has_value());
  if (given > 1)
    throw CLI::ValidationError(
        "expected one of --json-schema, --json-object, --regex, --choice and --grammar, found several; leave "
        "the others out");
}

std::optional<Constraint> ConstraintFlags::read() const {
  using constraint::JsonSpace;
  const JsonSpace space = json_space == "compact" ? JsonSpace::compact : JsonSpace::flexible;
  std::optional<Constraint> found;
  if (json_schema)
    found = constraint::JsonSchema{
        is_schema(*json_schema) ? *json_schema : read_prompt_file(*json_schema, kMaxFile), space};
  if (json_object) found = constraint::JsonObject{space};
  if (regex) found = constraint::Regex{*regex};
  if (!choice.empty()) found = constraint::Choice{choice};
  if (grammar_file) found = constraint::Grammar{read_prompt_file(*grammar_file, kMaxFile)};
  if (found) constraint::grammar_of(*found);
  return found;
}

}  // namespace tp
