// Templates that would run forever, fill the memory or exhaust the stack.
#include "tests/model/chat/jinja/rendering.h"

namespace tp::jinja {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

void expect_error(const std::string& source, const std::string& message,
                  const Json& variables = Json::object()) {
  const std::string text = rendered(source, variables);
  EXPECT_TRUE(text.starts_with("error: ")) << source.substr(0, 80) << "\ngave " << text.size() << " bytes";
  EXPECT_NE(text.find(message), std::string::npos) << text.substr(0, 300);
}

TEST(JinjaLimits, LargerWholeNumbersOfJsonAreApproximate) {
  const Json variables = Json::parse(R"({"a": 18446744073709551615, "b": 9223372036854775807})");
  EXPECT_EQ(rendered("{{ a|tojson }} {{ b|tojson }}", variables),
            "1.8446744073709552e+19 9223372036854775807");
}

TEST(JinjaLimits, LoopsEnd) {
  expect_error("{% for a in range(10**9) %}{% endfor %}", "range gives at most 100000 numbers");
  expect_error("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
               "endless loop");
  expect_error("{% set l = [1] %}{% for a in range(99999) %}{% set _ = l.append(l * 99) %}{% endfor %}",
               "endless loop");
}

TEST(JinjaLimits, TextsAndListsStayInMemory) {
  expect_error("{{ 'x' * 10**12 }}", "endless loop");
  expect_error("{{ ([1] * 10**12)|length }}", "endless loop");
  expect_error(
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor "
      "%}",
      "endless loop");
  expect_error(
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "endless loop");
  expect_error(
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
      "ns.l }}",
      "endless loop");
  expect_error("{{ ('%s' * 99999)|replace('%', 'x' * 99999) }}", "endless loop");
  expect_error("{{ ('a\n' * 99999)|indent(9999) }}", "endless loop");
}

// Each call reads the whole text, and the naive search compares all of `b` at most places of `a`.
TEST(JinjaLimits, SearchesTakeLinearTime) {
  const std::string texts = "{% set a = 'x' * 2000000 %}{% set b = 'x' * 1000000 + 'y' + 'x' * 10 %}";
  const std::string reversed = "{% set c = 'x' * 10 + 'y' + 'x' * 1000000 %}";
  EXPECT_EQ(rendered(texts + "{{ a.find(b) }} {{ b in a }} {{ a.count(b) }} {{ a.split(b)|length }} "
                             "{{ a.partition(b)[1] }} {{ a.replace(b, '')|length }}"),
            "-1 False 0 1  2000000");
  EXPECT_EQ(rendered(texts + reversed + "{{ a.rfind(c) }} {{ a.rsplit(c)|length }} {{ a.rpartition(c)[1] }}"),
            "-1 1 ");
  EXPECT_EQ(rendered("{{ ('b' * 1000000).strip('a' * 300000 + 'b')|length }}"), "0");
}

TEST(JinjaLimits, MethodsAndFiltersPayForTheirText) {
  for (const char* call : {"a.upper()", "a.lower()", "a.capitalize()", "a.title()", "a.swapcase()",
                           "a.islower()", "a.isupper()", "a.istitle()", "a.isalpha()", "a.isspace()",
                           "a.split()", "a|upper", "a|title", "a|wordcount", "a|int", "a|float"}) {
    expect_error("{% set a = '1' * 1000000 %}{% for i in range(40) %}{% set x = " + std::string(call) +
                     " %}{% endfor %}",
                 "endless loop");
  }
}

TEST(JinjaLimits, SearchesFromTheRightFindTheLastPlaces) {
  EXPECT_EQ(rendered("{{ 'abcabc'.rfind('bc') }} {{ 'abc'.rfind('') }} {{ ''.rfind('a') }} "
                     "{{ 'aaa'.rsplit('aa') }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a,b,c'.split(',', 1) }} "
                     "{{ 'a.b.c'.rpartition('.') }} {{ 'äöä'.rfind('ä') }}"),
            "4 3 -1 ['a', ''] ['a,b', 'c'] ['a', 'b,c'] ('a.b', '.', 'c') 2");
}

TEST(JinjaLimits, RecursionEnds) {
  expect_error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested deeper");
  expect_error("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "nested deeper");
  expect_error("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "nested deeper");
  expect_error("{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}", "nested deeper");
  expect_error(
      "{% set l = [] %}{% set _ = l.append(l) %}{% set k = [] %}{% set _ = k.append(k) %}{{ l == k }}",
      "nested deeper");
  expect_error(
      "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
      "nested deeper");
}

TEST(JinjaLimits, DeepTemplatesAreErrorsWithTheirPlace) {
  for (const char* bracket : {"(", "[", "{1:", "-", "not ", "a[", "f("})
    expect_error("{{ " + repeated(bracket, 100000), "error: t:1:");
  expect_error("{{ 1" + repeated(" + 1", 100000) + " }}", "more than 2000 parts");
  expect_error("{{ a" + repeated(".a", 100000) + " }}", "more than 2000 parts");
  expect_error("{{ a" + repeated("|list", 100000) + " }}", "more than 2000 parts");
  expect_error("{{ 1" + repeated(" if 1 else 1", 100000) + " }}", "nested deeper than 100 levels");
  expect_error(repeated("{% if 1 %}", 100000), "nested deeper than 100 levels");
  expect_error("{% for " + repeated("(", 100000), "error: t:1:");
  expect_error("{% set " + repeated("(", 100000), "error: t:1:");
}

TEST(JinjaLimits, DeepMessagesAreErrors) {
  Json deep = 1;
  for (int i = 0; i < 1500; ++i) deep = Json::array({deep});
  expect_error("{{ 1 }}", "nested deeper", {{"deep", deep}});
}

TEST(JinjaLimits, LeaveRoomForLongConversations) {
  Json messages = Json::array();
  for (int i = 0; i < 2000; ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", repeated("word ", 100)}});
  const std::string text = rendered(
      "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] | trim + '<|end|>\n' }}{% endfor %}",
      {{"messages", messages}});
  EXPECT_EQ(text.find("error: "), std::string::npos) << text.substr(0, 200);
  EXPECT_GT(text.size(), 2000U * 500);
}

}  // namespace
}  // namespace tp::jinja
