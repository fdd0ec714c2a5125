// Constraints that would crash the process, or take minutes or gigabytes, without limits.
#include "runtime/constraint/shortest_texts.h"
#include "tests/expect_contains.h"
#include "tests/runtime/constraint/text_matcher.h"
#include "tp/error.h"

#include <cstddef>
#include <ctime>
#include <functional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::constraint {
namespace {

std::string times(std::size_t count, const std::string& text) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

std::string list_of(std::size_t count, const std::function<std::string(std::size_t)>& part) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += (i > 0 ? ", " : "") + part(i);
  return all;
}

void expect_refused(const Constraint& constraint, const std::string& reason) {
  EXPECT_CONTAINS(error_of(constraint), reason);
}

// Processor time of this process, because other processes may use the cores.
double seconds_of(const std::function<void()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

constexpr const char* kTooLong = "the constraint takes too long";

TEST(HostileConstraints, RepeatNothingVeryOften) {
  expect_refused(Regex{"(?=a)(?:(?:(?:){1000000}){1000000}){1000000}"}, kTooLong);
  expect_refused(Regex{"(?=a)(?:(?:(?:^){1000000}){1000000}){1000000}a"}, kTooLong);
}

// Each loop around others is a term whose definition is known only after they are.
TEST(HostileConstraints, NestPartsThatMayBeEmpty) {
  std::string pattern = "(?:b)*";
  for (int level = 0; level < 60; ++level) pattern = "(?:" + pattern + times(40, "(a*)") + ")*";
  EXPECT_NE(error_of(Regex{"(?=a?)" + pattern}), "no error");
  expect_refused(Regex{"^" + times(1800, "(?:$|\\b|a)")}, "nested too deeply");
}

TEST(HostileConstraints, HaveLongNames) {
  const auto schema = [](std::size_t length) {
    return JsonSchema{R"({"type": "object", "additionalProperties": true, "properties": {")" +
                      std::string(length, 'n') + R"(": {"type": "integer"}}})"};
  };
  for (const std::size_t length : {150U, 1100U}) {
    TextMatcher matcher{Constraint(schema(length))};
    const std::string name(length, 'n');
    EXPECT_TRUE(matcher.matches("{\"" + name + "\": 1}"));
    EXPECT_FALSE(matcher.matches("{\"" + name + "\": \"a\"}"));
    EXPECT_TRUE(matcher.matches("{\"" + name + "n\": \"a\"}"));
    EXPECT_TRUE(matcher.matches("{\"" + name.substr(1) + "\": \"a\"}"));
  }
  EXPECT_NE(error_of(schema(300000)), "no error");
}

TEST(HostileConstraints, HaveLongPatterns) {
  expect_refused(Regex{std::string(70000, 'a')}, "at most 65536 bytes");
  TextMatcher matcher{Constraint(Regex{"^" + std::string(50000, 'a') + "$"})};
  EXPECT_TRUE(matcher.matches(std::string(50000, 'a')));
  EXPECT_NE(error_of(Regex{"(?:^a|" + times(900, "b|") + "c)" + std::string(60000, 'a')}), "no error");
}

// Lengths have gaps if only some multiples of a number are possible, which needs a table.
TEST(HostileConstraints, HaveManyTablesOfLengths) {
  const auto branch = [](std::size_t i) {
    return fmt::format(R"({{"pattern": "^(?:a{{90}}|b{{{}}})*$", "maxLength": 60000}})", 91 + i);
  };
  expect_refused(JsonSchema{R"({"anyOf": [)" + list_of(40, branch) + "]}"}, kTooLong);
}

// A state's steps have characters of many classes.
TEST(HostileConstraints, HaveStepsOfManyRanges) {
  std::string letters;
  for (unsigned i = 0; i < 9000; ++i) letters += fmt::format("\\u{:04x}", 0x100 + 2 * i);
  expect_refused(Regex{"(?=[a" + letters + "]*$)(?s:.{2500})"}, kTooLong);
}

TEST(HostileConstraints, ShareOneBudget) {
  const std::string pattern = "\"(?=a)(?:[ab]{1,500}c){1,5}\" ";
  EXPECT_EQ(error_of(Grammar{"root ::= %regex " + pattern}), "no error");
  expect_refused(Grammar{"root ::= " + times(100, "%regex " + pattern)}, kTooLong);
  const std::string schema = R"(%json {"pattern": "^(?=a)(?:[ab]{1,500}c){1,5}$"} )";
  expect_refused(Grammar{"root ::= " + times(100, schema)}, kTooLong);
  const auto twice_the_one_before = [](std::size_t i) {
    return fmt::format(R"("d{0}": {{"allOf": [{{"$ref": "#/$defs/d{1}"}}, {{"$ref": "#/$defs/d{1}"}}]}})",
                       i + 1, i);
  };
  const std::string doubling = R"(%json {"$ref": "#/$defs/d12", "$defs": {"d0": {"const": 1}, )" +
                               list_of(12, twice_the_one_before) + "}} ";
  EXPECT_EQ(error_of(Grammar{"root ::= " + doubling}), "no error");
  expect_refused(Grammar{"root ::= " + times(100, doubling)}, kTooLong);
}

TEST(HostileConstraints, JoinLongTextsOften) {
  const std::string text(400000, 'x');
  const auto reference = [](std::size_t) { return R"({"$ref": "#/$defs/a"})"; };
  expect_refused(JsonSchema{R"({"$defs": {"a": {"const": ")" + text + R"("}}, "allOf": [)" +
                            list_of(2000, reference) + "]}"},
                 "at most 300000 parts");
}

TEST(HostileConstraints, FindNamesInALargeDocument) {
  const auto reference = [](std::size_t i) { return fmt::format(R"({{"$ref": "#n{}"}})", i); };
  const auto target = [](std::size_t i) {
    return fmt::format(R"("d{0}": {{"$anchor": "n{0}", "const": {0}}})", i);
  };
  expect_refused(JsonSchema{R"({"anyOf": [)" + list_of(2500, reference) + R"(], "$defs": {)" +
                            list_of(2500, target) + "}}"},
                 "at most 300000 parts");
}

TEST(HostileConstraints, HaveManyMultiples) {
  const auto branch = [](std::size_t i) {
    return fmt::format(R"({{"type": "integer", "multipleOf": {}, "minimum": 0, "maximum": 99999}})",
                       1001 + i);
  };
  expect_refused(JsonSchema{R"({"anyOf": [)" + list_of(60, branch) + "]}"}, kTooLong);
}

// An automaton for the other keywords decides whether a listed value is valid.
TEST(HostileConstraints, ListValuesThatCanBeReadInManyWays) {
  expect_refused(
      JsonSchema{R"({"pattern": "^(?:a{1,100}){1,100}$", "enum": [")" + std::string(9000, 'a') + "\"]}"},
      kTooLong);
}

TEST(HostileConstraints, HaveManyQuantifiersInARow) {
  for (const char* quantifier : {"?", "*", "+", "{0,2}"}) {
    expect_refused(Grammar{"root ::= \"a\"" + times(10000, quantifier)}, "at most 16 quantifiers in a row");
    TextMatcher matcher{Constraint(Grammar{"root ::= \"a\"" + times(16, quantifier)})};
    EXPECT_TRUE(matcher.matches("a")) << quantifier;
    EXPECT_FALSE(matcher.matches("b")) << quantifier;
  }
}

// Nested groups with quantifiers, and prefix items that may be missing together with all later items.
TEST(HostileConstraints, NestPartsMoreDeeplyThanTheStackAllows) {
  ByteGrammar grammar;
  grammar.root = grammar.add_rule();
  ExprId part = grammar.text("a");
  for (int level = 0; level < 59000; ++level) part = grammar.optional(part);
  grammar.define(grammar.root, part);
  TextMatcher nested(std::move(grammar));
  EXPECT_TRUE(nested.matches("a"));
  EXPECT_TRUE(nested.matches(""));
  EXPECT_FALSE(nested.matches("aa"));

  const auto item = [](std::size_t) { return R"({"const": 1})"; };
  TextMatcher items{Constraint(
      JsonSchema{R"({"type": "array", "prefixItems": [)" + list_of(6000, item) + "]}", JsonSpace::compact})};
  EXPECT_TRUE(items.matches("[1" + times(5999, ",1") + "]"));
  EXPECT_TRUE(items.matches("[1,1,1]"));
  EXPECT_FALSE(items.begins("[1" + times(6000, ",1")));
}

// A text begins more rules than the stack has room for frames.
TEST(HostileConstraints, WriteTextsThatBeginManyRules) {
  const Automaton automaton = build_automaton(grammar_of(Grammar{"root ::= \"(\" root \")\" | \"a\""}));
  StateMachine machine(automaton);
  StateId state = machine.start();
  constexpr std::uint64_t kDepth = 100000;
  for (std::uint64_t depth = 0; depth < kDepth; ++depth) state = machine.next(state, '(');
  EXPECT_EQ(ShortestTexts(machine).after(state), kDepth + 1);
}

// 20,000 equal edges become one. Different edges are charged before they are followed.
TEST(HostileConstraints, HaveManyEdges) {
  const auto automaton_of = [](const std::string& text) {
    return build_automaton(grammar_of(Grammar{text}));
  };
  const auto edges_of = [](const Automaton& automaton) {
    std::size_t edges = 0;
    for (const Automaton::Position& position : automaton.positions)
      edges += position.bytes.size() + position.empties.size() + position.calls.size();
    return edges;
  };
  const Automaton equal = automaton_of("root ::= [a]" + times(20000, " | [a]") + times(20000, " | [b]"));
  EXPECT_EQ(edges_of(equal), 2U);  // the call of `root`, and a set of bytes
  EXPECT_LT(
      edges_of(automaton_of("root ::= x" + times(5000, " | x") + times(5000, " | \"\"") + "\nx ::= \"a\"")),
      5U);
  const Automaton different = automaton_of("root ::= [a] \"b\"" + times(5000, " | [a] \"b\""));
  StateMachine machine(different);
  const StateId start = machine.start();
  machine.limit_work(4000);
  EXPECT_THROW(machine.next(start, 'b'), RequestError);
  machine.limit_work(2);
  EXPECT_THROW(machine.forced_byte(start), RequestError);
}

// Equal values: 1 and 1.0, and objects whose members have another order.
TEST(HostileConstraints, CompareLongLists) {
  const auto odd = [](std::size_t i) { return std::to_string(2 * i + 1); };
  const auto even = [](std::size_t i) { return std::to_string(2 * i + 2); };
  const std::string left = list_of(36000, odd);
  const std::string right = list_of(36000, even);
  constexpr double kSeconds = 5;  // with a comparison of every pair: more than 10
  EXPECT_LT(seconds_of([&] {
              TextMatcher matcher{Constraint(JsonSchema{R"({"allOf": [{"enum": [)" + left +
                                                        R"(, {"a": 1, "b": 2}]}, {"enum": [)" + right +
                                                        R"(, {"b": 2.0, "a": 1}, 71999.0]}]})"})};
              EXPECT_TRUE(matcher.matches("71999"));
              EXPECT_TRUE(matcher.matches(R"({"a": 1, "b": 2})"));
              EXPECT_FALSE(matcher.matches("1"));
              EXPECT_FALSE(matcher.matches("2"));
            }),
            kSeconds);
  EXPECT_LT(seconds_of([&] {
              expect_refused(JsonSchema{R"({"oneOf": [{"enum": [)" + left + R"(, 72001]}, {"enum": [)" +
                                        right + R"(, 72001.0]}]})"},
                             "branches that exclude each other");
            }),
            kSeconds);
  const auto list = [](std::size_t i) { return fmt::format("[{}]", i); };
  EXPECT_LT(seconds_of([&] {
              expect_refused(
                  JsonSchema{R"({"type": "array", "uniqueItems": true, "maxItems": 3, "items": {"enum": [)" +
                             list_of(8000, list) + "]}}"},
                  "at most 300000 parts");
            }),
            kSeconds);
}

TEST(HostileConstraints, CompareManyBranches) {
  const auto property = [](std::size_t i) { return fmt::format(R"("p{}": {{}})", i); };
  const auto name = [](std::size_t i) { return fmt::format(R"("p{}")", i); };
  const std::string branch = R"({"type": "object", "properties": {)" + list_of(100, property) +
                             R"(}, "required": [)" + list_of(100, name) + "]}";
  expect_refused(JsonSchema{R"({"$defs": {"a": )" + branch + R"(}, "oneOf": [)" +
                            list_of(2, [](std::size_t) { return R"({"$ref": "#/$defs/a"})"; }) + "]}"},
                 "branches that exclude each other");
  // Only the last property distinguishes two branches.
  const auto tagged = [&](std::size_t i) {
    return fmt::format(
        R"({{"allOf": [{{"$ref": "#/$defs/a"}}, {{"properties": {{"tag": {{"const": {}}}}}, "required": ["tag"]}}]}})",
        i);
  };
  expect_refused(
      JsonSchema{R"({"$defs": {"a": )" + branch + R"(}, "oneOf": [)" + list_of(100, tagged) + "]}"},
      kTooLong);
}

}  // namespace
}  // namespace tp::constraint
