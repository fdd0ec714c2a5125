// --model with paths that are not models.

#include "tests/environment_variable.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

std::vector<Arguments> commands_of(const std::string& model) {
  return {{"generate", "--prompt", "x", "--model", model},
          {"tokenize", "--model", model, "x"},
          {"render-chat", "--messages", "-", "--model", model}};
}

void expect_refused(const std::string& model, const std::string& message, bool inspects = true) {
  std::vector<Arguments> commands = commands_of(model);
  if (inspects) commands.push_back({"inspect", "--model", model});
  for (const Arguments& command : commands) {
    SCOPED_TRACE(command.front());
    expect_one_error(run(kNoMpirun, command), 1, message);
  }
}

TEST(ModelPath, AdvisesHowToDownloadANameOnTheHub) {
  const TemporaryDirectory cache;
  const EnvironmentVariable variable("HF_HUB_CACHE", cache.path());
  expect_refused("meta-llama/Llama-3.2-1B",
                 "cannot open meta-llama/Llama-3.2-1B: expected a path or the name of a downloaded model, "
                 "found no file, folder or cached model with this name; to download it, run `tp-infer "
                 "download meta-llama/Llama-3.2-1B` on every host",
                 false);
  const EnvironmentVariable offline("HF_HUB_OFFLINE", "1");
  expect_one_error(run(kNoMpirun, {"inspect", "--model", "org/name"}), 1, "found HF_HUB_OFFLINE=1");
  expect_one_error(run(2, commands_of("org/name").front()), 1, "`tp-infer download org/name`");
}

TEST(ModelPath, OfAnAddressOnTheHubIsItsName) {
  const TemporaryDirectory cache;
  const EnvironmentVariable variable("HF_HUB_CACHE", cache.path());
  expect_refused("https://huggingface.co/Qwen/Qwen3-4B",
                 "run `tp-infer download Qwen/Qwen3-4B` on every host", false);
  expect_refused("llama3", "or give a model of the Hugging Face Hub as ORGANIZATION/NAME");
}

TEST(ModelPath, OfNothingElseIsTakenForANameOnTheHub) {
  for (const char* path : {"/proc/nonexistent", "./org/name", "~/org", "a/b/c", "org/", "no model"}) {
    const Finished finished = run(kNoMpirun, {"inspect", "--model", path});
    expect_one_error(finished, 1, "no such file or folder; check the path on every host");
  }
}

TEST(ModelPath, AsksForTheFolderOfASafetensorsFile) {
  const TextModel model;
  expect_refused(model.path() + "/model.safetensors",
                 "expected a checkpoint's folder, found one of its files; give --model " + model.path());
}

TEST(ModelPath, RejectsFilesOfOtherFormats) {
  const TemporaryDirectory directory;
  expect_refused(
      directory.write("weights.bin", "anything"),
      "expected the folder of a checkpoint (config.json, *.safetensors, a tokenizer) or a file *.gguf");
  expect_refused(directory.write("blob", "GGUF and so on"), "expected a name that ends in .gguf");
  expect_refused(directory.write("source.spm", std::string("\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02", 16)),
                 "found a vocabulary of SentencePiece; give one of these");
  expect_refused(directory.write("model.pth", std::string("PK\x03\x04\0\0", 6)),
                 "found a zip archive, such as PyTorch's weights (.bin, .pth); give one of these");
}

TEST(ModelPath, NamesACircularLink) {
  const TemporaryDirectory directory;
  const std::string loop = directory.path() / "loop";
  std::filesystem::create_symlink(loop, loop);
  expect_refused(loop, "cannot open " + loop + ": Too many levels of symbolic links; check the path");
}

}  // namespace
}  // namespace tp::test
