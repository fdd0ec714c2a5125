// No command overwrites a file that it reads.

#include "parallel/machine/file_text.h"
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"
#include "tests/temporary_directory.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

namespace fs = std::filesystem;

// A command, its options for files to read, and its options for files to write.
struct Command {
  std::string name;
  std::vector<std::string> read;
  std::vector<std::string> written;
};

const std::vector<Command> kCommands = {
    {"generate",
     {"--prompt-file", "--tokens", "--batch", "--template", "--json-schema", "--grammar"},
     {"--output", "--trace"}},
    {"chat", {"--load", "--template", "--api-key-file"}, {}},
    {"serve", {"--api-key-file", "--chat-template"}, {"--pid-file"}},
    {"render-chat", {"--template", "--messages"}, {"--output"}},
    {"embed", {"--batch", "--tokens"}, {"--output"}},
    {"rank", {"--batch"}, {"--output"}},
    {"classify", {"--batch", "--tokens"}, {"--output"}},
    {"fill-mask", {"--batch", "--tokens"}, {"--output"}},
    {"logits", {"--tokens"}, {"--output"}},
    {"hidden", {"--tokens"}, {"--output"}},
    {"perplexity", {"--file", "--tokens"}, {"--output", "--kl-base"}},
    {"tokenize", {}, {"--output"}},
    {"detokenize", {}, {"--output"}},
    {"download", {}, {}},
    {"gateway", {"--config", "--api-key-file"}, {}},
    {"kv-store", {}, {"--output"}},
    {"quantize", {}, {"--output"}},
    {"inspect", {}, {"--output"}},
    {"plan", {}, {"--output"}},
    {"bench", {"--synthetic", "--acceptance-trace"}, {"--output", "--trace"}}};

// Arguments that complete a command line.
const std::map<std::string, Arguments> kAlso = {{"render-chat --template", {"--messages", "-"}},
                                                {"rank --batch", {"--query", "x"}},
                                                {"rank", {"--query", "x", "--batch", "-"}},
                                                {"embed", {"--prompt", "x"}},
                                                {"classify", {"--prompt", "x"}},
                                                {"fill-mask", {"--prompt", "x"}},
                                                {"logits", {"--tokens", "-"}},
                                                {"hidden", {"--tokens", "-"}},
                                                {"perplexity", {"--file", "-"}},
                                                {"tokenize", {"x"}},
                                                {"render-chat", {"--messages", "-"}},
                                                {"generate", {"--prompt", "x"}},
                                                {"generate --template", {"--batch", "-"}},
                                                {"generate --json-schema", {"--prompt", "x"}},
                                                {"generate --grammar", {"--prompt", "x"}},
                                                {"quantize", {"--weights", "int8", "--force"}}};

Arguments also(const std::string& command) {
  const auto found = kAlso.find(command);
  return found == kAlso.end() ? Arguments() : found->second;
}

// Returns the options in a command's help whose values are files.
std::set<std::string> file_options(const std::string& command) {
  const std::string& help = help_text(command);
  const std::regex option("(--[a-z-]+)(,--[a-z-]+)* FILE");
  std::set<std::string> names;
  for (std::sregex_iterator match(help.begin(), help.end(), option), end; match != end; ++match)
    names.insert((*match)[1]);
  return names;
}

// The names under "Subcommands:" in the program's help.
std::set<std::string> subcommands() {
  std::istringstream help(help_text());
  std::set<std::string> names;
  bool is_listed = false;
  for (std::string line; std::getline(help, line);) {
    if (is_listed && line.empty()) break;
    if (is_listed && line.starts_with("  ") && line[2] != ' ')
      names.insert(line.substr(2, line.find(' ', 2) - 2));
    is_listed = is_listed || line.find("ubcommands:") != line.npos;
  }
  return names;
}

class DistinctFiles : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }

  std::string write(const std::string& name) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name)) << kContent;
    return path(name);
  }

  // Expects that the command refuses to write the file, names it as `found`, and leaves it unchanged.
  static void expect_refused(Arguments command, const std::string& option, const std::string& file,
                             const std::string& found) {
    command.insert(command.end(), {option, file});
    expect_one_error(run(kNoMpirun, command), 1,
                     "expected a separate file for " + option + ", found " + found);
    EXPECT_EQ(file_text(file), kContent);
  }

  static constexpr const char* kContent = "before";
  const TemporaryDirectory directory_;
};

TEST_F(DistinctFiles, AreAskedOfEveryOptionThatNamesAFile) {
  for (const Command& command : kCommands) {
    std::set<std::string> known(command.read.begin(), command.read.end());
    known.insert(command.written.begin(), command.written.end());
    EXPECT_EQ(file_options(command.name), known) << command.name;
  }
  std::set<std::string> commands;
  for (const Command& command : kCommands) commands.insert(command.name);
  EXPECT_EQ(subcommands(), commands);
}

TEST_F(DistinctFiles, ProtectTheFilesOfOptions) {
  const std::string file = write("file.gguf");
  fs::create_symlink(file, path("symbolic.gguf"));
  fs::create_hard_link(file, path("hard.gguf"));
  for (const Command& command : kCommands) {
    for (const std::string& option : command.read) {
      for (const std::string& written : command.written) {
        SCOPED_TRACE(command.name + " " + option + " " + written);
        Arguments arguments = {command.name, option, file};
        for (const std::string& word : also(command.name + " " + option)) arguments.push_back(word);
        expect_refused(arguments, written, file, "that of " + option);
        if (option != "--tokens" && option != "--api-key-file") continue;
        expect_refused(arguments, written, path("symbolic.gguf"), "that of " + option);
        expect_refused(arguments, written, path("hard.gguf"), "that of " + option);
      }
    }
  }
}

TEST_F(DistinctFiles, ProtectEveryFileOfAModelFolder) {
  for (const char* name : {"config.json",
                           "generation_config.json",
                           "tokenizer.json",
                           "tokenizer_config.json",
                           "special_tokens_map.json",
                           "added_tokens.json",
                           "vocab.json",
                           "vocab.txt",
                           "merges.txt",
                           "tokenizer.model",
                           "tekken.json",
                           "tiktoken.model",
                           "rwkv_vocab_v20230424.txt",
                           "chat_template.jinja",
                           "chat_template.json",
                           "additional_chat_templates/tool_use.jinja",
                           "model.safetensors",
                           "model.safetensors.index.json",
                           "model-00001-of-00002.safetensors",
                           "modules.json",
                           "config_sentence_transformers.json",
                           "sentence_bert_config.json",
                           "1_Pooling/config.json",
                           "2_Dense/config.json",
                           "2_Dense/model.safetensors",
                           "quantize_config.json",
                           "hf_quant_config.json",
                           "draft/config.json",
                           "draft/model.safetensors"}) {
    SCOPED_TRACE(name);
    expect_refused({"inspect", "--model", directory_.path().string()}, "--output", write(name),
                   "one of the model");
  }
}

TEST_F(DistinctFiles, ProtectTheModelFromEveryCommand) {
  const std::string config = write("config.json");
  const std::string gguf = write("model.gguf");
  for (const Command& command : kCommands) {
    if (command.name == "kv-store") continue;  // reads no model
    for (const std::string& written : command.written) {
      SCOPED_TRACE(command.name + " " + written);
      const bool is_quantize = command.name == "quantize";
      Arguments arguments = {command.name, "--model", is_quantize ? gguf : directory_.path().string()};
      for (const std::string& word : also(command.name)) arguments.push_back(word);
      expect_refused(arguments, written, is_quantize ? gguf : config, "one of the model");
    }
  }
  const std::string folder = directory_.path().string();
  expect_refused({"generate", "--prompt", "x", "--speculate", "draft:" + folder + ":4"}, "--output", config,
                 "one of the model");
  expect_refused({"generate", "--prompt", "x", "--packed-cache", folder}, "--trace", write("x.packed"),
                 "one of " + folder);
}

TEST_F(DistinctFiles, ProtectOnlyTheFilesOfTheModel) {
  const std::string first = write("a-00001-of-00002.gguf");
  const std::string second = write("a-00002-of-00002.gguf");
  const Arguments quantize = {"quantize", "--model", first, "--weights", "int8", "--force"};
  expect_refused(quantize, "--output", second, "one of the model");
  const auto found_own_file = [&](Arguments command, const std::string& output) {
    command.insert(command.end(), {"--output", output});
    return run(kNoMpirun, command).err.find("expected a separate file") == std::string::npos;
  };
  EXPECT_TRUE(found_own_file(quantize, write("b.gguf")));
  write("folder/config.json");
  for (const char* name : {"folder/results.json", "folder/notes.txt", "folder/model-int8.gguf"})
    EXPECT_TRUE(found_own_file({"inspect", "--model", path("folder")}, write(name))) << name;
}

TEST_F(DistinctFiles, ProtectAModelInTheCacheOfHuggingFace) {
  const std::string cached = "hub/models--org--name/";
  write(cached + "refs/main");
  const std::string blob = write(cached + "blobs/1234");
  fs::create_directories(path(cached + "snapshots/before"));
  fs::create_symlink("../../blobs/1234", path(cached + "snapshots/before/config.json"));
  fs::create_symlink("../../blobs/1234", path(cached + "snapshots/before/model.safetensors"));
  for (const std::string& file : {blob, path(cached + "refs/main")}) {
    const Finished finished = run(kNoMpirun, {"inspect", "--model", "org/name", "--output", file},
                                  {.variables = {"HF_HUB_CACHE=" + path("hub")}});
    expect_one_error(finished, 1, "expected a separate file for --output, found one of the model");
    EXPECT_EQ(file_text(file), kContent);
  }
}

TEST_F(DistinctFiles, ProtectStandardInputOfMpirun) {
  const std::string file = write("requests.jsonl");
  std::vector<std::string> command = {"sh", "-c", "exec \"$0\" \"$@\" < " + file};
  for (const std::string& word : command_line(2, {"generate", "--batch", "-", "--output", file}))
    command.push_back(word);
  expect_one_error(Process(command).finish(), 1, "found standard input; give another file");
  EXPECT_EQ(file_text(file), kContent);
}

TEST_F(DistinctFiles, ProtectTheModelFromTheConversationThatIsSaved) {
  const TextModel model;
  const std::string file = write("chat.jinja");
  const std::string config = (fs::path(model.path()) / "config.json").string();
  const std::string before = file_text(config);
  const Finished finished =
      run(kNoMpirun, {"chat", "--model", model.path(), "--template", file},
          {.input = "/save " + file + "\n/save " + config + "\n/save " + path("saved") + "\n"});
  EXPECT_CONTAINS(finished.err, "expected a separate file for /save, found that of --template");
  EXPECT_CONTAINS(finished.err, "expected a separate file for /save, found one of the model");
  EXPECT_EQ(file_text(file), kContent);
  EXPECT_EQ(file_text(config), before);
  EXPECT_TRUE(fs::exists(path("saved")));
}

}  // namespace
}  // namespace tp::test
