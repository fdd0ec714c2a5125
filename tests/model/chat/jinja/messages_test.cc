// Error messages, and the intended differences from Jinja2.
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/chat/jinja/rendering.h"

namespace tp::jinja {
namespace {

template <class E>
std::string message_of(const std::string& source, const Json& variables = Json::object()) {
  return test::error_of<E>([&] { Template(source, "DIR/tokenizer_config.json").render(variables); });
}

TEST(JinjaErrors, NameThePlaceInTheTemplate) {
  EXPECT_EQ(message_of<CheckpointError>("line one\n  {{ 'ü' }}{% unless x %}"),
            "DIR/tokenizer_config.json:2:15: cannot read the chat template: chat templates may not use the "
            "statement 'unless' here; correct it, or give another one");
  EXPECT_EQ(
      message_of<CheckpointError>("{% if x %}\n{{ 1 "),
      "DIR/tokenizer_config.json:2:1: cannot read the chat template: the tag that begins here has no }}; "
      "correct it, or give another one");
  EXPECT_EQ(message_of<RequestError>("\n\n {{ x.y.z }}", {{"x", Json::object()}}),
            "DIR/tokenizer_config.json:3:9: cannot render the chat template: there is no 'y' in the dict, so "
            "it has no 'z'; change the messages or the template");
  EXPECT_EQ(
      message_of<RequestError>("{{ raise_exception('only users speak') }}"),
      "DIR/tokenizer_config.json:1:19: cannot render the chat template: the chat template refuses this: only "
      "users speak; change the messages or the template");
}

TEST(JinjaErrors, UnsupportedPartsAreNamed) {
  for (const char* statement :
       {"extends 'a'", "include 'a'", "import 'a' as b", "block a", "do x", "autoescape true"}) {
    EXPECT_CONTAINS(message_of<CheckpointError>("{% " + std::string(statement) + " %}"),
                    "may not use the statement")
        << statement;
  }
  EXPECT_CONTAINS(message_of<CheckpointError>("{{ f(*a) }}"), "arguments with * and **");
  EXPECT_CONTAINS(message_of<CheckpointError>("{{ '\\N{DASH}' }}"), "by name");
  EXPECT_CONTAINS(message_of<RequestError>("{{ 1|xmlattr }}"), "there is no filter 'xmlattr'");
  EXPECT_CONTAINS(message_of<RequestError>("{{ 1 is prime }}"), "there is no test 'prime'");
  EXPECT_CONTAINS(message_of<RequestError>("{{ '%5d' % 1 }}"), "conversion %5");
  EXPECT_CONTAINS(message_of<RequestError>("{{ '{:>5}'.format(1) }}"), "format field {:>5}");
  EXPECT_CONTAINS(message_of<RequestError>("{{ 2 ** 63 }}"), "64 bits");
  EXPECT_CONTAINS(message_of<CheckpointError>("\xff"), "UTF-8");
}

TEST(JinjaLists, GrowThoughHuggingFaceForbidsIt) {
  EXPECT_EQ(rendered("{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}"),
            "[1, 2]21[]");
  EXPECT_TRUE(rendered("{{ [].pop() }}").starts_with("error: "));
  // A loop iterates over the original list.
  EXPECT_EQ(rendered("{% set l = [1, 2] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}{{ l }}"),
            "[1, 2, 1, 2]");
}

TEST(JinjaTime, IsTheOneGivenOrThePresent) {
  EXPECT_EQ(rendered("{{ strftime_now('%d %b %Y') }}"), "26 Jul 2024");
  const std::string year = Template("{{ strftime_now('%Y') }}", "t").render(Json::object()).text();
  EXPECT_EQ(year.size(), 4U);
  EXPECT_GE(year, "2025");
}

}  // namespace
}  // namespace tp::jinja
