#include "model/chat/chat_template.h"

#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/model/tokenizer/test_tokenizer.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace tp {
namespace {

using Json = nlohmann::ordered_json;
using test::error_of;
using test::TemporaryDirectory;

Json conversation() { return {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}}; }

Json with_tools() {
  Json variables = conversation();
  variables["tools"] = {{{"name", "clock"}}};
  return variables;
}

std::string rendered(const TemporaryDirectory& folder, const Json& variables) {
  const std::optional<ChatTemplate> found = ChatTemplate::load(folder.path());
  return found ? found->render(variables).text() : "no template";
}

TEST(ChatTemplate, IsReadFromTheTokenizersConfig) {
  const TemporaryDirectory folder;
  EXPECT_EQ(rendered(folder, conversation()), "no template");
  folder.write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_EQ(rendered(folder, conversation()), "no template");
  folder.write("tokenizer_config.json", R"({"chat_template": "{{ messages[0].content }}!"})");
  EXPECT_EQ(rendered(folder, conversation()), "Hi!");
}

TEST(ChatTemplate, IsTheDefaultOrTheToolTemplateAmongSeveral) {
  const TemporaryDirectory folder;
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "with {{ tools[0].name }}"},
                                                          {"name": "default", "template": "plain"}]})");
  EXPECT_EQ(rendered(folder, conversation()), "plain");
  EXPECT_EQ(rendered(folder, with_tools()), "with clock");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "plain"}]})");
  EXPECT_EQ(rendered(folder, with_tools()), "plain");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { rendered(folder, conversation()); }),
                  "expected one with the name 'default', found rag");
}

// transformers saves a list of templates like this since version 4.53.
TEST(ChatTemplate, FilesOfAFolderAreTemplatesByName) {
  const TemporaryDirectory folder;
  std::filesystem::create_directory(folder.path() / "additional_chat_templates");
  folder.write("additional_chat_templates/tool_use.jinja", "with {{ tools[0].name }}");
  folder.write("additional_chat_templates/notes.txt", "{% broken");
  folder.write("tokenizer_config.json", R"({"chat_template": "from config"})");
  EXPECT_EQ(rendered(folder, conversation()), "from config");
  EXPECT_EQ(rendered(folder, with_tools()), "with clock");
  folder.write("chat_template.jinja", "plain");
  EXPECT_EQ(rendered(folder, conversation()), "plain");
  EXPECT_EQ(rendered(folder, with_tools()), "with clock");
  EXPECT_TRUE(ChatTemplate::load(folder.path())->has_tool_template());
  folder.write("additional_chat_templates/tool_use.jinja", "{% if %}");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { rendered(folder, conversation()); }),
                  "additional_chat_templates/tool_use.jinja:1:7: ");
}

TEST(ChatTemplate, FilesOfItsOwnComeFirstAndLast) {
  const TemporaryDirectory folder;
  folder.write("chat_template.json", R"({"chat_template": "from json"})");
  EXPECT_EQ(rendered(folder, conversation()), "from json");
  folder.write("tokenizer_config.json", R"({"chat_template": "from config"})");
  EXPECT_EQ(rendered(folder, conversation()), "from config");
  folder.write("chat_template.jinja", "from jinja\n");
  EXPECT_EQ(rendered(folder, conversation()), "from jinja");
}

TEST(ChatTemplate, IsReadFromAGgufFile) {
  const TemporaryDirectory folder;
  test::GgufBuilder builder;
  builder.text("tokenizer.ggml.model", "gpt2")
      .texts("tokenizer.ggml.tokens", {"a", "<s>", "</s>"})
      .texts("tokenizer.ggml.merges", {})
      .whole("tokenizer.ggml.bos_token_id", 1)
      .whole("tokenizer.ggml.eos_token_id", 2);
  folder.write("model.gguf", builder.file());
  EXPECT_EQ(ChatTemplate::load(folder.path() / "model.gguf").has_value(), false);
  builder.text("tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
  folder.write("model.gguf", builder.file());
  EXPECT_EQ(rendered(folder, conversation()), "<s>Hi</s>");
  EXPECT_EQ(ChatTemplate::load(folder.path() / "model.gguf")->render(conversation()).text(), "<s>Hi</s>");
  builder.text("tokenizer.chat_template.tool_use", "{{ tools[0].name }}{{ eos_token }}");
  folder.write("model.gguf", builder.file());
  EXPECT_EQ(rendered(folder, conversation()), "<s>Hi</s>");
  EXPECT_EQ(rendered(folder, with_tools()), "clock</s>");
}

TEST(ChatTemplate, KnowsTheModelsSpecialTokensByDefault) {
  const TemporaryDirectory folder;
  folder.write("special_tokens_map.json", R"({"bos_token": "<old>", "unk_token": "<unk>"})");
  folder.write("tokenizer_config.json",
               R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null,
      "add_bos_token": true,
      "chat_template": "{{ bos_token }}{{ eos_token }}{{ unk_token }}{{ pad_token is defined }}"})");
  EXPECT_EQ(rendered(folder, conversation()), "<s></s><unk>False");
  EXPECT_EQ(ChatTemplate::load(folder.path())->eos_token(), "</s>");
  Json variables = conversation();
  variables["bos_token"] = "<b>";
  EXPECT_EQ(rendered(folder, variables), "<b></s><unk>False");
}

TEST(ChatTemplate, RendersLikeTransformers) {
  const TemporaryDirectory folder;
  folder.write("t.jinja", "{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }} {{ x }}");
  const ChatTemplate chat = ChatTemplate::load_file(folder.path() / "t.jinja");
  EXPECT_EQ(chat.render(conversation()).text(), "True True False ");
  Json variables = with_tools();
  variables.update({{"add_generation_prompt", true}, {"x", 5}});
  EXPECT_EQ(chat.render(variables).text(), "False True True 5");
  EXPECT_EQ(chat.eos_token(), "");
}

TEST(ChatTemplate, KeepsTheOrderOfMembers) {
  const TemporaryDirectory folder;
  folder.write("t.jinja", "{{ tools | tojson }}");
  Json variables = conversation();
  variables["tools"] = Json::parse(R"([{"z": 1, "a": {"y": 2, "b": 3}}])");
  EXPECT_EQ(ChatTemplate::load_file(folder.path() / "t.jinja").render(variables).text(),
            R"([{"z": 1, "a": {"y": 2, "b": 3}}])");
}

TEST(ChatTemplate, ErrorsNameTheFile) {
  const TemporaryDirectory folder;
  folder.write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { rendered(folder, conversation()); }),
                  "cannot use chat_template");
  folder.write("tokenizer_config.json", R"({"chat_template": "{% if %}"})");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { rendered(folder, conversation()); }),
                  "tokenizer_config.json:1:7: ");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { ChatTemplate::load_file(folder.path() / "absent"); }),
                  "cannot read the chat template");
  // A pointer file would be rendered as a template.
  folder.write("chat_template.jinja", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n");
  EXPECT_CONTAINS(error_of<CheckpointError>([&] { rendered(folder, conversation()); }),
                  "chat_template.jinja: expected a text, found a Git LFS pointer");
}

}  // namespace
}  // namespace tp
