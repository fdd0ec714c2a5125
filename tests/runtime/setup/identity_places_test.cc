// The places where the program decides whether files of a model, or builds, are the same. No place looks at
// samples of a file, its date, or a version number. program_files_test has the programs of a gateway's jobs,
// and plan_agreement_test the builds of ranks.
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "model/weights/adapters/adapter.h"
#include "model/weights/open_checkpoint.h"
#include "model/weights/packed_cache.h"
#include "parallel/machine/file_text.h"
#include "runtime/setup/model_identity.h"
#include "runtime/store/files/store_fingerprint.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"
#include "tests/runtime/setup/invert_bit.h"
#include "tests/temporary_directory.h"
#include "tp/version.h"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

struct Place {
  std::string what;
  fs::path input;    // a file, or a folder
  std::string file;  // the file in the folder that is edited
  std::function<std::string(const fs::path&)> identity;
};

// Copies of a model on several ranks, packed weights and stored prompts have this identity.
std::string identity_of_model(const fs::path& path) {
  const std::unique_ptr<WeightSource> source = open_checkpoint(path);
  return ModelIdentity(test::world(), *source, "model", HashCache(fs::path())).read().hex();
}

std::string facts_of_store(const fs::path& model) {
  return store_facts({.model = model}, make_spec(load_config(reference::fixture("llama-gqa").folder)), {});
}

AdapterOptions adapter_in(const fs::path& path) { return {.name = "tuned", .path = path}; }

// The reason why packed weights of this model are not read after those of the model {1, 2} were kept; empty:
// they are read.
std::string state_of_packed(const ContentHash& model) {
  const TemporaryDirectory folder;
  PackedCacheIdentity identity{.model = "/models/some", .source = {1, 2}, .tp = {0, 1}};
  PackedCache kept(folder.path(), identity);
  kept.rebuild();
  EXPECT_EQ(kept.finish(), "");
  identity.source = model;
  return PackedCache(folder.path(), identity).unusable_because();
}

const std::vector<Place>& places() {
  const fs::path adapter = reference::adapter_fixture("lora-llama").folder / "adapter";
  static const std::vector<Place> all = {
      {"safetensors model", reference::fixture("llama-gqa").folder, "model.safetensors", identity_of_model},
      {"GGUF model", reference::gguf_fixtures().front().folder / "model.gguf", {}, identity_of_model},
      {"config of stored prompts", reference::fixture("llama-gqa").folder, "config.json", facts_of_store},
      {"PEFT adapter", adapter, "adapter_model.safetensors",
       [](const fs::path& path) { return open_peft_adapter(adapter_in(path)).identity; }},
      {"GGUF adapter",
       reference::gguf_adapter("lora-llama"),
       {},
       [](const fs::path& path) {
         const CheckpointConfig config = load_config(reference::adapter_fixture("lora-llama").base);
         return open_gguf_adapter(adapter_in(path), make_spec(config), "llama").identity;
       }},
  };
  return all;
}

TEST(IdentityPlaces, NoticeABitAnywhereInAFileOfTheSameSizeAndTime) {
  for (const Place& place : places()) {
    const TemporaryDirectory directory;
    const fs::path copy = directory.path() / place.input.filename();
    fs::copy(place.input, copy, fs::copy_options::recursive);
    const fs::path edited = place.file.empty() ? copy : copy / place.file;
    fs::permissions(edited, fs::perms::owner_all);
    const std::string before = place.identity(copy);
    EXPECT_EQ(place.identity(copy), before) << place.what;
    const std::size_t size = fs::file_size(edited);
    for (const std::size_t from_end : {std::size_t{1}, size / 9, size / 5, size / 3}) {
      test::invert_bit(edited, from_end);
      EXPECT_NE(place.identity(copy), before) << place.what << ", byte " << from_end << " from the end";
      test::invert_bit(edited, from_end);
    }
  }
}

TEST(IdentityPlaces, KeepPackedWeightsForOneHashOfAllBytes) {
  EXPECT_EQ(state_of_packed({1, 2}), "");
  EXPECT_EQ(state_of_packed({1, 3}), "the model, or how weights are packed, has changed");
  EXPECT_EQ(state_of_packed({2, 2}), "the model, or how weights are packed, has changed");
}

// Two commits of one version differ. PlanAgreement compares the same text between ranks.
TEST(IdentityPlaces, NameTheCommitAndTheOptionsOfTheBuild) {
  const std::string build = build_text();
  EXPECT_CONTAINS(build, "commit ");
  EXPECT_CONTAINS(facts_of_store(reference::fixture("llama-gqa").folder), build);
  const TemporaryDirectory folder;
  PackedCache kept(folder.path(), {.model = "/models/some", .source = {1, 2}, .tp = {0, 1}});
  kept.rebuild();
  EXPECT_EQ(kept.finish(), "");
  const std::string bytes = file_text(folder.path() / folder.files().at(0));
  EXPECT_CONTAINS(bytes, build) << "the file's first page names the build";
}

}  // namespace
}  // namespace tp
