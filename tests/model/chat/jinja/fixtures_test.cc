// The chat templates of real model families, rendered by two other engines.
#include "tests/expect_contains.h"
#include "tests/model/chat/jinja/rendering.h"

#include <filesystem>

namespace tp::jinja {
namespace {

TEST(ChatTemplates, RenderLikeOtherEnginesForRealModels) {
  const std::filesystem::path folder = std::filesystem::path(TP_SHARED_FIXTURES) / "chat";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not on this machine";
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const Json fixture = read_json(entry.path());
    for (const Json& c : fixture.at("cases")) {
      if (!c.at("agreed_by_both_engines").get<bool>()) continue;
      SCOPED_TRACE(entry.path().filename().string() + ", " + c.at("case").get<std::string>());
      ++count;
      Json variables = {{"messages", c.at("messages")},
                        {"add_generation_prompt", c.at("add_generation_prompt")},
                        {"bos_token", fixture.at("bos_token")},
                        {"eos_token", fixture.at("eos_token")}};
      if (c.contains("tools")) variables["tools"] = c.at("tools");
      const std::string text = rendered(fixture.at("chat_template"), variables);
      if (c.contains("error"))
        EXPECT_CONTAINS(text, "refuses this: " + c.at("error").get<std::string>());
      else
        EXPECT_EQ(text, c.at("rendered").get<std::string>());
    }
  }
  EXPECT_GT(count, 300U);
}

}  // namespace
}  // namespace tp::jinja
