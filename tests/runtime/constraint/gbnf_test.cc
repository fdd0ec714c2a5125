// Compares GBNF with a recognizer that tries everything.
#include "tests/expect_contains.h"
#include "tests/runtime/constraint/text_matcher.h"
#include "tp/error.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp::constraint {
namespace {

// A grammar of rules r0, r1, ..., whose alternatives are lists of symbols: letters, or digits for rules.
using Rules = std::vector<std::vector<std::string>>;

// Finds all ends of a rule that begins at `begin`, by iteration to the fixed point.
class NaiveRecognizer {
 public:
  NaiveRecognizer(const Rules& rules, std::string text) : rules_(rules), text_(std::move(text)) {}

  bool recognizes() {
    std::size_t before = 0;
    do {
      before = known_;
      for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
        for (std::size_t begin = 0; begin <= text_.size(); ++begin) {
          for (const std::string& symbols : rules_[rule]) add_ends(rule, begin, symbols);
        }
      }
    } while (known_ != before);
    return ends_[{0, 0}].contains(text_.size());
  }

 private:
  void add_ends(std::size_t rule, std::size_t begin, const std::string& symbols) {
    std::set<std::size_t> places = {begin};
    for (const char symbol : symbols) {
      std::set<std::size_t> next;
      for (const std::size_t place : places) {
        if (symbol >= '0' && symbol <= '9') {
          const auto& more = ends_[{static_cast<std::size_t>(symbol - '0'), place}];
          next.insert(more.begin(), more.end());
        } else if (place < text_.size() && text_[place] == symbol) {
          next.insert(place + 1);
        }
      }
      places = next;
    }
    for (const std::size_t place : places) known_ += ends_[{rule, begin}].insert(place).second ? 1 : 0;
  }

  const Rules& rules_;
  std::string text_;
  std::map<std::pair<std::size_t, std::size_t>, std::set<std::size_t>> ends_;
  std::size_t known_ = 0;
};

std::string gbnf_of(const Rules& rules) {
  std::string text = "root ::= r0\n";
  for (std::size_t rule = 0; rule < rules.size(); ++rule) {
    text += "r" + std::to_string(rule) + " ::= ";
    for (std::size_t i = 0; i < rules[rule].size(); ++i) {
      text += i > 0 ? " | " : "";
      for (const char symbol : rules[rule][i])
        text += symbol >= '0' && symbol <= '9' ? std::string("r") + symbol + " "
                                               : std::string("\"") + symbol + "\" ";
      if (rules[rule][i].empty()) text += "\"\"";
    }
    text += "\n";
  }
  return text;
}

// Random rules include left recursion, ambiguity, and circular rules for the empty text.
TEST(Gbnf, MatchesANaiveRecognizer) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  int derived = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    Rules rules(static_cast<std::size_t>(1 + below(4)));
    for (auto& alternatives : rules) {
      for (int n = 1 + below(3); n > 0; --n) {
        std::string& symbols = alternatives.emplace_back();
        for (int length = below(4); length > 0; --length)
          symbols += below(2) == 0 ? static_cast<char>('a' + below(2))
                                   : static_cast<char>('0' + below(static_cast<int>(rules.size())));
      }
    }
    std::unique_ptr<TextMatcher> matcher;
    try {
      matcher = std::make_unique<TextMatcher>(Constraint(Grammar{gbnf_of(rules)}));
    } catch (const RequestError&) {  // the grammar derives nothing
    }
    for (int i = 0; i < 30; ++i) {
      std::string text;
      for (int length = below(7); length > 0; --length) text += static_cast<char>('a' + below(2));
      const bool expected = NaiveRecognizer(rules, text).recognizes();
      derived += expected ? 1 : 0;
      ASSERT_EQ(matcher != nullptr && matcher->matches(text), expected) << gbnf_of(rules) << "text: " << text;
    }
  }
  EXPECT_GT(derived, 2000);
}

bool derives(const std::string& gbnf, const std::string& text) {
  return TextMatcher(Constraint(Grammar{gbnf})).matches(text);
}

TEST(Gbnf, ReadsTheNotationOfLlamaCpp) {
  const std::string json = R"(
# a comment
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)";
  EXPECT_TRUE(derives(json, R"({"a": [1, -2.5e3, {"b": "é\n\u00e9"}], "c": null})"));
  EXPECT_FALSE(derives(json, R"({"a": [1, ]})"));
  EXPECT_TRUE(derives("root ::= [a-z]+ \".\" . [^a] \"\\u00e9\\x41\"",
                      "abc.☃bé"
                      "A"));
  EXPECT_TRUE(derives("root ::= \"a\"{2} \"b\"{1,} \"c\"{0,2}\n  | \"x\"", "aabbb"));
  EXPECT_TRUE(derives("root ::= \"a\"{2}\n  | \"x\"", "x"));
  EXPECT_TRUE(derives("root ::= <[5]> \"a\"",
                      "\xFF"
                      "5"
                      "\xFF"
                      "a"));
}

TEST(Gbnf, HasJsonSchemasRegularExpressionsAndTextsUpToAnother) {
  const std::string gbnf =
      "root ::= think call+\n"
      "think ::= \"<think>\" %until \"</think>\"\n"
      "call ::= \"<call>\" %json {\"type\": \"object\", \"properties\": {\"}\": {\"type\": \"integer\"}}} "
      "\"</call>\" %regex \"[0-9]{2}\"";
  EXPECT_TRUE(derives(gbnf, "<think>a < b </thin </think><call>{\"}\": 5}</call>17"));
  EXPECT_FALSE(derives(gbnf, "<think>a</think></think><call>{}</call>17"));
  EXPECT_TRUE(derives("root ::= %until \"aab\"", "aaab"));
  EXPECT_FALSE(derives("root ::= %until \"aab\"", "aabaab"));
  EXPECT_TRUE(derives("root ::= %without \"aab\" \"!\"?", "aba ab aa\n!"));
  EXPECT_FALSE(derives("root ::= %without \"aab\"", "aaabb"));
}

// Compares with std::string::find on texts of two letters, in which beginnings overlap.
TEST(Gbnf, FindsTheFirstOccurrenceOfATextAnywhere) {
  std::mt19937 random(2);
  const auto letters = [&](std::size_t longest) {
    std::string text;
    for (std::size_t length = random() % (longest + 1); length > 0; --length)
      text += random() % 3 == 0 ? "é" : "a";
    return text;
  };
  for (int trial = 0; trial < 200; ++trial) {
    const std::string sought = "a" + letters(5);
    TextMatcher until(Constraint(Grammar{"root ::= %until \"" + sought + "\""}));
    TextMatcher without(Constraint(Grammar{"root ::= %without \"" + sought + "\""}));
    for (int i = 0; i < 50; ++i) {
      const std::string text = letters(12);
      const std::size_t place = text.find(sought);
      ASSERT_EQ(until.matches(text), place != text.npos && place + sought.size() == text.size())
          << sought << " in " << text;
      ASSERT_EQ(without.matches(text), place == text.npos) << sought << " in " << text;
    }
  }
}

TEST(Gbnf, NeedsNoMemoryForRepetitionByRecursion) {
  TextMatcher matcher(Constraint(Grammar{"root ::= item rest\nrest ::= \",\" root | \"\"\nitem ::= [a-z]"}));
  std::string text = "a";
  ASSERT_TRUE(matcher.matches(text + ",a,a,a,a,a"));
  const std::size_t states = matcher.machine().states();
  for (int i = 0; i < 1000; ++i) text += ",b";
  EXPECT_TRUE(matcher.matches(text));
  EXPECT_LT(matcher.machine().states(), states + 5);
}

TEST(Gbnf, RejectsInvalidGrammars) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the grammar: expected a rule `root ::= ...`, found none; add it"},
      {"root ::= a", "expected a rule `a ::= ...`, found none"},
      {"root ::= \"a", "expected `\"`, found its end at offset 11; close the literal"},
      {"root = \"a\"", "expected `::=` after the name of a rule, found `=` at offset 5"},
      {"root ::= \"a\"\nroot ::= \"b\"", "expected rules with different names, found `r` at offset 13"},
      {"root ::= [a", "close the class"},
      {"root ::= (\"a\"", "expected `)`"},
      {"root ::= \"a\"{3,1}", "expected bounds in order"},
      {"root ::= root \"a\"", "the constraint allows no text at all"},
      {"root ::= %json {\"type\": \"objekt\"}", "the JSON Schema at `/type`"},
      {"root ::= %without \"\"", "expected a text that is not empty before this"},
      {"root ::= %until \"" + std::string(20000, 'a') + "\"",
       "expected a text of at most 200 characters after `%until` or `%without`, found 20000; shorten it"},
  };
  for (const auto& [gbnf, text] : cases) {
    EXPECT_CONTAINS(error_of(Grammar{gbnf}), text) << gbnf;
  }
}

}  // namespace
}  // namespace tp::constraint
