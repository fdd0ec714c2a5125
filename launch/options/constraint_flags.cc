#include "launch/options/constraint_flags.h"

#include "launch/common/option_checks.h"
#include "launch/options/prompts.h"
#include "runtime/constraint/constraint_compiler.h"

namespace tp {
namespace {

constexpr std::size_t kMaxFile = 1 << 20;  // bytes

// JSON begins with a brace or is a word; files seldom have such names.
bool is_schema(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return (begin != std::string::npos && text[begin] == '{') || text == "true" || text == "false";
}

}  // namespace

void ConstraintFlags::add_to(CLI::App& command) {
  constexpr const char* kGroup = "Constraints on whole continuations (at most one)";
  command
      .add_option("--json-schema", json_schema,
                  "JSON that matches this JSON Schema (drafts 4 to 2020-12, OpenAPI)")
      ->check(not_empty("a file or a schema"))
      ->type_name("FILE|TEXT")
      ->group(kGroup);
  command.add_flag("--json-object", json_object, "Any JSON object")->group(kGroup);
  command
      .add_option("--json-space", json_space,
                  "White space of generated JSON: flexible (at most one space, or one line break with an "
                  "indentation), compact (none)")
      ->check(one_of({"flexible", "compact"}))
      ->type_name("SPACE")
      ->capture_default_str()
      ->group(kGroup);
  command.add_option("--regex", regex, "A text that this regular expression matches completely")
      ->check(not_empty("a regular expression"))
      ->type_name("PATTERN")
      ->group(kGroup);
  command.add_option("--choice", choice, "One of several texts; give --choice once for each of them")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group(kGroup);
  command.add_option("--grammar", grammar_file, "A text of this grammar, in GBNF")
      ->check(not_empty("a file"))
      ->type_name("FILE")
      ->group(kGroup);
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
