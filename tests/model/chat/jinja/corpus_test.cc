// Templates in the style of published ones, with many conversations, against Jinja2's results. The script
// tests/data/chat_templates/generate.py writes these.
#include "parallel/machine/file_text.h"
#include "tests/model/chat/jinja/rendering.h"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace tp::jinja {
namespace {

namespace fs = std::filesystem;

const fs::path& folder() {
  static const fs::path path = fs::path(TP_TEST_DATA) / "chat_templates";
  return path;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (entry.path().extension() == ".jinja") all.push_back(entry.path().stem().string());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<Json> conversations() {
  const Json file = read_json(folder() / "conversations.json");
  std::vector<Json> all;
  for (const Json& conversation : file.at("conversations")) {
    Json variables = file.at("variables");
    variables.update(conversation.at("variables"));
    if (variables.at("tools") == "all") variables["tools"] = file.at("tools");
    all.push_back(std::move(variables));
  }
  return all;
}

class ChatTemplateCorpus : public testing::TestWithParam<std::string> {};

TEST_P(ChatTemplateCorpus, RendersAsJinja2Does) {
  static const Json expected = read_json(folder() / "expected.json");
  const std::string source = file_text(folder() / (GetParam() + ".jinja"));
  const Json& results = expected.at(GetParam());
  const std::vector<Json> all = conversations();
  ASSERT_EQ(results.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string text = rendered(source, all[i]);
    const Json& result = results.at(i);
    if (result.is_string())
      EXPECT_EQ(text, result.get<std::string>()) << all[i];
    else
      EXPECT_TRUE(text.starts_with("error: t:") &&
                  text.find(result.at("error").get<std::string>()) != std::string::npos)
          << text << result << all[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ChatTemplateCorpus, testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

TEST(ChatTemplates, IncludeManyTemplatesAndConversations) {
  EXPECT_GE(names().size(), 40U);
  EXPECT_GE(conversations().size(), 12U);
}

}  // namespace
}  // namespace tp::jinja
