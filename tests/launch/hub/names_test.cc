// Names of repositories and files, and the selection of a repository's files.

#include "launch/hub/download_error.h"
#include "launch/hub/gguf_models.h"
#include "launch/hub/hub_name.h"
#include "launch/hub/selection.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/launch/hub/fake_hub.h"
#include "tp/error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::test {
namespace {

using Names = std::vector<std::string>;

TEST(HubName, IsAnOrganizationAndANameAndMayHaveAFile) {
  const std::optional<HubName> plain = parse_hub_name("Qwen/Qwen2.5-0.5B_x");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->repository, "Qwen/Qwen2.5-0.5B_x");
  EXPECT_EQ(plain->file, "");
  const std::optional<HubName> file = parse_hub_name("org/name:folder/a-Q4_K_M.gguf");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->repository, "org/name");
  EXPECT_EQ(file->file, "folder/a-Q4_K_M.gguf");
  EXPECT_EQ(file->text(), "org/name:folder/a-Q4_K_M.gguf");
}

TEST(HubName, IsReadFromAnAddressOfTheHub) {
  for (const char* text : {"https://huggingface.co/Qwen/Qwen3-4B", "https://huggingface.co/Qwen/Qwen3-4B/",
                           "hf.co/Qwen/Qwen3-4B", "http://www.huggingface.co/Qwen/Qwen3-4B?x=1",
                           "huggingface.co/Qwen/Qwen3-4B/tree/main", "hf://Qwen/Qwen3-4B",
                           "https://huggingface.co/Qwen/Qwen3-4B/blob/main/config.json"}) {
    const std::optional<HubName> name = parse_hub_name(text);
    ASSERT_TRUE(name) << text;
    EXPECT_EQ(name->text(), "Qwen/Qwen3-4B") << text;
  }
  EXPECT_EQ(parse_hub_name("https://huggingface.co/o/n/resolve/main/a/b.gguf?download=true")->text(),
            "o/n:a/b.gguf");
  EXPECT_EQ(parse_hub_name("hf.co/o/n:Q4_K_M")->text(), "o/n:Q4_K_M");
  for (const char* text : {"https://example.com/Qwen/Qwen3-4B", "https://huggingface.co/Qwen",
                           "https://huggingface.co/o/n/tree/refs", "https://huggingface.co/o/n/tree/mainline",
                           "https://huggingface.co/datasets/o/n"})
    EXPECT_FALSE(parse_hub_name(text)) << text;
}

TEST(HubName, IsNothingElse) {
  for (const char* text :
       {"", "name", "/", "org/", "/name", "a/b/c", "./a/b", "../a", "a/..", "~/a", "a b/c",
        "org/name:", "org/name:../x", "org/name:/etc/passwd", "org/na--me", "org/a..b", "-a/b", "C:/models"})
    EXPECT_FALSE(parse_hub_name(text)) << text;
}

TEST(SafePath, StaysInItsFolderAndCanBePrinted) {
  for (const char* path : {"config.json", "a/b/c.gguf", "..a", "a..b/c", "Q4 K.gguf"})
    EXPECT_TRUE(is_safe_path(path)) << path;
  for (const char* path :
       {"", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/..", "./a", "a\nb", "a\x1b[2Jb", "a\x7f"})
    EXPECT_FALSE(is_safe_path(path)) << path;
  EXPECT_FALSE(is_safe_path(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_safe_path(std::string(300, 'a')));
}

Names names_of(const std::vector<GgufModel>& models) {
  Names names;
  for (const GgufModel& model : models) names.push_back(model.name());
  return names;
}

TEST(GgufModels, AreFilesOrAllPartsOfOne) {
  const std::vector<GgufModel> models =
      gguf_models({"b-00002-of-00002.gguf", "b-00001-of-00002.gguf", "a.gguf", "mmproj-a.gguf",
                   "imatrix.gguf", "c-00001-of-00003.gguf", "c-00003-of-00003.gguf", "README.md"});
  EXPECT_EQ(names_of(models), (Names{"a.gguf", "b-00001-of-00002.gguf"}));
  EXPECT_EQ(models[1].files, (Names{"b-00001-of-00002.gguf", "b-00002-of-00002.gguf"}));
}

TEST(GgufModels, AreFoundByPathNameOrQuantization) {
  const std::vector<GgufModel> models =
      gguf_models({"m-Q4_K.gguf", "m-Q4_K_M.gguf", "m-IQ4_NL.gguf", "m-UD-Q2_K_XL.gguf",
                   "big/m-BF16-00001-of-00002.gguf", "big/m-BF16-00002-of-00002.gguf", "Q8_0/m.gguf"});
  EXPECT_EQ(names_of(matching(models, "Q4_K")), Names{"m-Q4_K.gguf"});
  EXPECT_EQ(names_of(matching(models, "q4_k_m")), Names{"m-Q4_K_M.gguf"});
  EXPECT_EQ(names_of(matching(models, "BF16")), Names{"big/m-BF16-00001-of-00002.gguf"});
  EXPECT_EQ(names_of(matching(models, "m-BF16-00002-of-00002.gguf")),
            Names{"big/m-BF16-00001-of-00002.gguf"});
  EXPECT_EQ(names_of(matching(models, "Q8_0")), Names{"Q8_0/m.gguf"});
  EXPECT_EQ(names_of(matching(models, "Q8_0/m.gguf")), Names{"Q8_0/m.gguf"});
  EXPECT_EQ(names_of(matching(models, "m.gguf")), Names{"Q8_0/m.gguf"});
  EXPECT_EQ(names_of(matching(models, "4_NL")), Names{});
  EXPECT_EQ(names_of(matching(models, "")).size(), 6U);
}

Selection select(const std::string& name, const Names& paths, const std::string& index = {}) {
  HubListing listing;
  for (const std::string& path : paths) listing.files.push_back(hub_file(path, "content", false));
  return select_files(*parse_hub_name(name), listing, [&](const HubFile&) { return index; });
}

Names paths_of(const Selection& selection) {
  Names paths;
  for (const HubFile& file : selection.files) paths.push_back(file.path);
  return paths;
}

TEST(SelectFiles, TakesTheWeightsConfigurationAndTokenizerOnce) {
  const Selection selection = select(
      "o/n", {"README.md", "additional_chat_templates/notes.txt", "additional_chat_templates/tool_use.jinja",
              "chat_template.jinja", "config.json", "consolidated.safetensors", "model.safetensors",
              "model.safetensors.index.json", "onnx/model.onnx", "original/tokenizer.model",
              "pytorch_model.bin", "tokenizer.json", "tokenizer_config.json"});
  EXPECT_EQ(paths_of(selection),
            (Names{"config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                   "additional_chat_templates/tool_use.jinja", "model.safetensors"}));
  EXPECT_EQ(selection.model, "");
}

TEST(SelectFiles, TakesThePartsThatTheIndexNames) {
  const Names paths = {"config.json", "model-1.safetensors", "model-2.safetensors", "model-3.safetensors",
                       "model.safetensors.index.json"};
  const auto index = [](const char* file) {
    return fmt::format(R"({{"weight_map": {{"a": "model-1.safetensors", "b": "{}"}}}})", file);
  };
  EXPECT_EQ(
      paths_of(select("o/n", paths, index("model-3.safetensors"))),
      (Names{"config.json", "model.safetensors.index.json", "model-1.safetensors", "model-3.safetensors"}));
  const auto error = [&](const char* file) {
    return error_of<Error>([&] { select("o/n", paths, index(file)); });
  };
  EXPECT_CONTAINS(error("absent.safetensors"),
                  "expected the file absent.safetensors, which model.safetensors.index.json");
  EXPECT_CONTAINS(error("../../etc/passwd"), "expected the name of a file in the same directory");
}

TEST(SelectFiles, TakesOneGgufModelWithItsParts) {
  EXPECT_EQ(paths_of(select("o/n", {"README.md", "m.gguf"})), Names{"m.gguf"});
  const Names several = {"m-Q4_K_M.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"};
  const Selection selection = select("o/n:Q8_0", several);
  EXPECT_EQ(paths_of(selection), (Names{"m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"}));
  EXPECT_EQ(selection.model, "m-Q8_0-00001-of-00002.gguf");
  EXPECT_CONTAINS(
      error_of<DownloadError>([&] { select("o/n", several); }),
      "cannot download o/n: expected one GGUF model, found m-Q4_K_M.gguf (7 B), "
      "m-Q8_0-00001-of-00002.gguf (14 B); name one of these: `tp-infer download o/n:m-Q4_K_M.gguf`");
  EXPECT_CONTAINS(error_of<DownloadError>([&] { select("o/n:Q5_0", several); }),
                  "cannot download o/n:Q5_0: expected a GGUF model with this name, found m-Q4_K_M.gguf");
}

TEST(SelectFiles, PrefersSafetensorsByDefault) {
  const Names both = {"config.json", "model.safetensors", "m.gguf"};
  EXPECT_EQ(paths_of(select("o/n", both)), (Names{"config.json", "model.safetensors"}));
  EXPECT_EQ(paths_of(select("o/n:m.gguf", both)), Names{"m.gguf"});
}

TEST(SelectFiles, ExplainsUnusableRepositories) {
  const auto error = [](const std::string& name, const Names& paths) {
    return error_of<DownloadError>([&] { select(name, paths); });
  };
  EXPECT_CONTAINS(error("o/n", {"config.json", "pytorch_model.bin"}),
                  "found PyTorch weights (pytorch_model.bin), which can hold programs and are not read");
  EXPECT_CONTAINS(error("o/n", {"adapter_config.json", "adapter_model.safetensors"}), "found an adapter");
  EXPECT_CONTAINS(error("o/n", {"config.json", "unet/x.safetensors"}),
                  "found only others, such as unet/x.safetensors");
  EXPECT_CONTAINS(error("o/n", {"README.md"}), "found neither among its 1 files");
  EXPECT_CONTAINS(error("o/n:x", {"config.json", "model.safetensors"}), "leave out \":x\"");
}

}  // namespace
}  // namespace tp::test
