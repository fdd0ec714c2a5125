// Compares every part of the language with Jinja2's results for the same templates.
#include "tests/model/chat/jinja/rendering.h"

#include <vector>

namespace tp::jinja {
namespace {

const Json& all() {
  static const Json cases = read_json(std::string(TP_TEST_DATA) + "/jinja/cases.json");
  return cases;
}

std::vector<std::string> groups() {
  std::vector<std::string> names;
  for (const Json& c : all().at("cases")) {
    if (names.empty() || names.back() != c.at("about")) names.push_back(c.at("about"));
  }
  return names;
}

class Jinja : public testing::TestWithParam<std::string> {};

TEST_P(Jinja, RendersAsJinja2Does) {
  std::size_t count = 0;
  for (const Json& c : all().at("cases")) {
    if (c.at("about") != GetParam()) continue;
    ++count;
    const std::string source = c.at("template");
    const std::string text = rendered(source, all().at("variables"));
    if (c.contains("error"))
      EXPECT_TRUE(text.starts_with("error: t:")) << source << "\ngave: " << text;
    else
      EXPECT_EQ(text, c.at("rendered").get<std::string>()) << source;
  }
  EXPECT_GE(count, 5U);
}

INSTANTIATE_TEST_SUITE_P(About, Jinja, testing::ValuesIn(groups()), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, ' ');
  return name;
});

}  // namespace
}  // namespace tp::jinja
