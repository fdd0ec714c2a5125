// Lark's notation: the constructs, and the grammar of Codex's tool apply_patch.
#include "tests/expect_contains.h"
#include "tests/runtime/constraint/text_matcher.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp::constraint {
namespace {

std::string quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return '"' + quoted + '"';
}

TextMatcher lark(const std::string& definition) {
  return TextMatcher(Constraint(Grammar{"root ::= %lark " + quoted(definition)}));
}

struct Construct {
  const char* grammar;
  std::vector<std::string> accepted;
  std::vector<std::string> refused;
};

TEST(Lark, ReadsEachConstruct) {
  const Construct constructs[] = {
      {"start: \"a\" b\nb: \"x\"", {"ax"}, {"a", "x", "axx", ""}},
      {"// a comment\n\nstart: A // another one\n  | \"b\"   # and one\n\n  | \"c\"\nA: \"a\"\n",
       {"a", "b", "c"},
       {"ab", "//"}},
      {"start: \"a\"? \"b\"* \"c\"+", {"c", "abbcc", "bc"}, {"ab", "aac"}},
      {"start: \"a\"~2 \"b\"~1..3", {"aab", "aabbb"}, {"ab", "aabbbb"}},
      {"start: (\"a\" | \"b\"\n  | \"c\")+ [\"!\" \"?\"]", {"abc", "c!?"}, {"!?", "a!"}},
      {"start: \"\\\"\\\\\\n\\t\\x41\\u00e9\"", {"\"\\\n\tA\xc3\xa9"}, {"\""}},
      {"start: \"select\"i", {"select", "SeLECT"}, {"selec7"}},
      {"start: D+\nD: \"0\"..\"4\"", {"0431"}, {"5", "a"}},
      {"start: /[a-c]+|x/ N\nN: /n\\/m/i", {"abcn/m", "xN/M"}, {"xx", "nm"}},
      {"start: /a.b/",
       {"a\rb", "axb",
        "a\xe2\x80\xa8"
        "b"},
       {"a\nb"}},
      {"start: /a.b/s", {"a\nb"}, {"ab"}},
      {"start: item -> first\n  | item item -> both\n?item: A\n!A2: \"n\"\nA: \"a\" | A2",
       {"a", "an", "nn"},
       {"ana"}},
      {"start: \"(\" start \")\" | \"x\"", {"x", "((x))"}, {"((x)"}},
      {"start: start \"+\" N | N\n%import common.INT -> N", {"1", "1+22"}, {"+", "1+"}},
      {"%import common (CNAME, WS_INLINE)\nstart: CNAME WS_INLINE CNAME", {"a _b1"}, {"1 a", "a\nb"}},
      {"start: \\\n  \"a\"", {"a"}, {"\\"}},
      {"start: |\"a\"", {"", "a"}, {"b"}},
  };
  for (const Construct& construct : constructs) {
    SCOPED_TRACE(construct.grammar);
    TextMatcher matcher = lark(construct.grammar);
    for (const std::string& text : construct.accepted) EXPECT_TRUE(matcher.matches(text)) << text;
    for (const std::string& text : construct.refused) EXPECT_FALSE(matcher.matches(text)) << text;
  }
}

TEST(Lark, HasTheTerminalsOfTheLibraryCommon) {
  const Construct terminals[] = {
      {"DIGIT", {"7"}, {"77"}},
      {"HEXDIGIT", {"f", "F", "0"}, {"g"}},
      {"INT", {"042"}, {"-1", ""}},
      {"SIGNED_INT", {"-1", "+1", "1"}, {"--1"}},
      {"DECIMAL", {"1.", "1.5", ".5"}, {"1", "."}},
      {"FLOAT", {"1e3", "1.5e-3", ".5"}, {"1", "e3"}},
      {"SIGNED_FLOAT", {"-1e3", "2."}, {"-1"}},
      {"NUMBER", {"1", "1.5E+3"}, {"-1"}},
      {"SIGNED_NUMBER", {"-1", "+.5e1"}, {"1e"}},
      {"ESCAPED_STRING", {"\"a\\\"b\"", "\"\"", "\"\\\\\""}, {"\"a\"b\"", "\"\\\"", "\"\n\""}},
      {"LCASE_LETTER", {"a"}, {"A"}},
      {"UCASE_LETTER", {"A"}, {"a"}},
      {"LETTER", {"a", "Z"}, {"1"}},
      {"WORD", {"Ab"}, {"a1"}},
      {"CNAME", {"_a1"}, {"1a"}},
      {"WS_INLINE", {" \t"}, {"\n", ""}},
      {"WS", {" \t\r\n\f"}, {""}},
      {"CR", {"\r"}, {"\n"}},
      {"LF", {"\n"}, {"\r\n"}},
      {"NEWLINE", {"\n", "\r\n\n"}, {"\r"}},
      {"SH_COMMENT", {"# a"}, {"# a\n"}},
      {"CPP_COMMENT", {"// a"}, {"/ a"}},
      {"C_COMMENT", {"/* a\n**/", "/**/"}, {"/* a */ */", "/*/"}},
      {"SQL_COMMENT", {"-- a"}, {"- a"}},
  };
  for (const Construct& terminal : terminals) {
    SCOPED_TRACE(terminal.grammar);
    TextMatcher matcher = lark(fmt::format("start: {0}\n%import common.{0}", terminal.grammar));
    for (const std::string& text : terminal.accepted) EXPECT_TRUE(matcher.matches(text)) << text;
    for (const std::string& text : terminal.refused) EXPECT_FALSE(matcher.matches(text)) << text;
  }
}

TEST(Lark, NamesUnsupportedSyntax) {
  const std::pair<const char*, const char*> cases[] = {
      {"start: \"a\"\n%ignore \" \"", "`%ignore` at offset 11 is not supported"},
      {"%declare A\nstart: A", "`%declare` at offset 0 is not supported"},
      {"%override start: \"a\"", "`%override` at offset 0 is not supported"},
      {"%extend start: \"a\"", "`%extend` at offset 0 is not supported"},
      {"%import .other.A\nstart: A", "an import from another library than `common`"},
      {"%import python.NAME\nstart: NAME", "an import from another library than `common`"},
      {"%import common.NOTHING\nstart: NOTHING", "expected a terminal of the library `common`"},
      {"start: A\nA.2: \"a\"", "a priority at offset 10 is not supported"},
      {"list{x}: x\nstart: list{\"a\"}", "a template at offset 4 is not supported"},
      {"start: list{\"a\"}", "a template at offset 11 is not supported"},
      {"start: /a(?=b)b/", "a regular expression with anchors or look-around at offset 7 is not supported"},
      {"start: /^a/", "anchors or look-around"},
      {"start: /a\\b/", "anchors or look-around"},
      {"start: /(?<!a)b/", "is not supported"},
      {"start: /a/x", "the flag `x` at offset 10 is not supported"},
      {"start: b", "expected a rule `b: ...`, found none; add it"},
      {"begin: \"a\"", "expected a rule `start: ...`, found none; add it"},
      {"start: A\nA: b\nb: \"x\"", "expected the name of a terminal, because terminals have no rules"},
      {"start: \"a\"\nstart: \"b\"", "expected names that differ"},
      {"start: (\"a\"", "expected `)`"},
      {"start: \"a\n\"", "expected `\"`"},
      {"start \"a\"", "expected `:` after the name of a rule or terminal"},
      {"start: \"b\"..\"a\"", "expected a range of two characters in order"},
      {"start: \"a\"~3..2", "expected bounds in order"},
      {"start: \"\\q\"", "expected an escape"},
  };
  for (const auto& [grammar, text] : cases) {
    EXPECT_CONTAINS(error_of(Grammar{"root ::= %lark " + quoted(grammar)}), text) << grammar;
  }
}

// The grammar in Codex 0.171.0's requests.
constexpr const char* kApplyPatch = R"(start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
)";

TEST(Lark, ReadsTheGrammarOfApplyPatchAsTextAndInJson) {
  const std::string begin = "*** Begin Patch\n";
  const std::string end = "*** End Patch";
  const std::pair<std::string, bool> patches[] = {
      {begin + "*** Add File: a.txt\n+first\n+\n+\"quoted\" \\ \xe2\x98\x83\r\n" + end, true},
      {begin + "*** Delete File: a b.txt\n" + end + "\n", true},
      {begin +
           "*** Update File: a.txt\n*** Move to: b.txt\n@@ def f():\n keep\n-old\n+new\n*** End of File\n" +
           end,
       true},
      {begin + "*** Update File: a\n@@\n-\n+x\n*** Add File: b\n+y\n*** Delete File: c\n" + end, true},
      {begin + "*** Update File: a\n" + end, true},
      {begin + end, false},
      {begin + "*** Add File: a.txt\n" + end, false},
      {begin + "*** Add File: \n+x\n" + end, false},
      {begin + "*** Update File: a\nno sign\n" + end, false},
      {begin + "*** Rename File: a\n" + end, false},
      {"*** Add File: a\n+x\n" + end, false},
      {begin + "*** Delete File: a\n", false},
      {begin + "*** Delete File: a\n" + end + "\n\n", false},
  };
  TextMatcher text = lark(kApplyPatch);
  TextMatcher json(Constraint(Grammar{"root ::= %lark_string " + quoted(kApplyPatch)}));
  for (const auto& [patch, accepted] : patches) {
    EXPECT_EQ(text.matches(patch), accepted) << patch;
    EXPECT_EQ(json.matches(nlohmann::json(patch).dump()), accepted) << patch;
  }
}

}  // namespace
}  // namespace tp::constraint
