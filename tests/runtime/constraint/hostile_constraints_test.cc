// Constraints that would crash the process, or take minutes or gigabytes, without limits.
#include "tests/runtime/constraint/text_matcher.h"
#include "tp/error.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

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

// Returns the error, or "".
std::string error_of(const Constraint& constraint) {
  try {
    TextMatcher matcher(constraint);
  } catch (const RequestError& error) {
    return error.what();
  }
  return "";
}

void expect_refused(const Constraint& constraint, const std::string& reason) {
  const std::string error = error_of(constraint);
  EXPECT_NE(error.find(reason), std::string::npos) << "expected `" << reason << "`, found `" << error << "`";
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
  EXPECT_NE(error_of(Regex{"(?=a?)" + pattern}), "");
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
  EXPECT_NE(error_of(schema(300000)), "");
}

TEST(HostileConstraints, HaveLongPatterns) {
  expect_refused(Regex{std::string(70000, 'a')}, "at most 65536 bytes");
  TextMatcher matcher{Constraint(Regex{"^" + std::string(50000, 'a') + "$"})};
  EXPECT_TRUE(matcher.matches(std::string(50000, 'a')));
  EXPECT_NE(error_of(Regex{"(?:^a|" + times(900, "b|") + "c)" + std::string(60000, 'a')}), "");
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
  EXPECT_EQ(error_of(Grammar{"root ::= %regex " + pattern}), "");
  expect_refused(Grammar{"root ::= " + times(100, "%regex " + pattern)}, kTooLong);
  const std::string schema = R"(%json {"pattern": "^(?=a)(?:[ab]{1,500}c){1,5}$"} )";
  expect_refused(Grammar{"root ::= " + times(100, schema)}, kTooLong);
  const auto twice_the_one_before = [](std::size_t i) {
    return fmt::format(R"("d{0}": {{"allOf": [{{"$ref": "#/$defs/d{1}"}}, {{"$ref": "#/$defs/d{1}"}}]}})",
                       i + 1, i);
  };
  const std::string doubling = R"(%json {"$ref": "#/$defs/d12", "$defs": {"d0": {"const": 1}, )" +
                               list_of(12, twice_the_one_before) + "}} ";
  EXPECT_EQ(error_of(Grammar{"root ::= " + doubling}), "");
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

}  // namespace
}  // namespace tp::constraint
