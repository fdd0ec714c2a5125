// GGUF files with queries, keys and values in one tensor, like those of llama.cpp's converter with
// --fuse-qkv.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/quantize/quantize_model.h"
#include "model/weights/gguf/gguf_files.h"
#include "model/weights/gguf/gguf_model_metadata.h"
#include "model/weights/gguf_checkpoint.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/weights/gguf_copy.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using reference::Fixture;
using test::bytes_in;
using test::GgufBuilder;
using test::ModelUnderTest;
using test::TemporaryDirectory;

// The file with one tensor attn_qkv instead of three, in all layers with attention. Counts these tensors.
std::string fused(const GgufFiles& files, std::size_t& tensors) {
  GgufBuilder to;
  test::copy_metadata(files, to);
  std::set<std::string> done;
  for (const auto& [tensor, entry] : files.tensors()) {
    const std::string& name = tensor;  // a lambda cannot capture a structured binding
    const std::size_t place = name.find(".attn_q.");
    if (place == name.npos) continue;
    const auto named = [&](const char* part) {
      return name.substr(0, place) + ".attn_" + part + name.substr(place + std::string(".attn_q").size());
    };
    const GgufFiles::Entry* const key = files.find(named("k"));
    const GgufFiles::Entry* const value = files.find(named("v"));
    // Layers with a recurrence may have tensors of these names, too.
    const std::size_t layer = std::stoul(name.substr(std::string("blk.").size()));
    if (key == nullptr || value == nullptr || ModelMetadata(files).key_rows(layer) == 0) continue;
    std::vector<std::uint64_t> shape(entry.tensor.shape.begin(), entry.tensor.shape.end());
    shape.front() += key->tensor.shape.front() + value->tensor.shape.front();
    to.tensor(named("qkv"), shape, entry.tensor.type.name,
              bytes_in(entry) + bytes_in(*key) + bytes_in(*value));
    done.insert({name, named("k"), named("v")});
    ++tensors;
  }
  for (const auto& [name, entry] : files.tensors()) {
    if (!done.contains(name)) test::copy_tensor(entry, to);
  }
  return to.file();
}

std::vector<float> logits_of(const std::filesystem::path& file, const std::vector<TokenId>& prompt) {
  const auto source = GgufCheckpoint::open(file);
  ModelUnderTest decoder(test::world(), load_config(file), *source, {});
  std::vector<float> logits = decoder.append(prompt);
  EXPECT_TRUE(decoder.model().unused_tensors().empty()) << decoder.model().unused_tensors().front();
  return logits;
}

TEST(GgufFused, QueriesKeysAndValuesGiveTheSameBitsInEveryFamily) {
  std::vector<std::string> families = supported_architectures();
  std::erase_if(families, [](const std::string& name) { return family_of(name).gguf.architecture.empty(); });
  std::set<std::string> fused_families;
  for (const Fixture& fixture : reference::fixtures_of(families)) {
    SCOPED_TRACE(fixture.name);
    const CheckpointConfig config = load_config(fixture.folder);
    if (test::world().size() > config.num_attention_heads) continue;
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "model.gguf";
    try {
      // Blocks of 32 elements, where rows are long enough, stay quantized.
      const char* const weights = fixture.name == "llama-gqa" ? "int8" : "f32";
      quantize_model({.model = fixture.folder, .name = "model", .weights = weights, .output = file},
                     [](std::uint64_t, std::uint64_t) {});
    } catch (const ConfigError&) {
      continue;  // GGUF can't express some configurations; quantize_model_test.cc lists them
    }
    std::size_t tensors = 0;
    const std::filesystem::path other = directory.write("fused.gguf", fused(GgufFiles(file), tensors));
    if (tensors == 0) continue;
    fused_families.insert(config.architecture);
    EXPECT_EQ(logits_of(other, fixture.prompt), logits_of(file, fixture.prompt));
  }
  for (const char* const family :
       {"LlamaForCausalLM", "Olmo2ForCausalLM", "OlmoeForCausalLM", "Gemma4ForConditionalGeneration",
        "Qwen2ForCausalLM", "Qwen3MoeForCausalLM", "Qwen3_5ForConditionalGeneration", "MixtralForCausalLM"})
    EXPECT_TRUE(fused_families.contains(family)) << family;
  EXPECT_GE(fused_families.size(), 25U);
}

}  // namespace
}  // namespace tp
