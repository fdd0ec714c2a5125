// Tied embeddings: one matrix, which checkpoints store as the embedding, as the LM head, or as both.
#include "model/config/config.h"
#include "model/weights/gguf_checkpoint.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/machine/file_text.h"
#include "tests/model/layers/model_under_test.h"
#include "tests/model/layers/next_token_checkpoint.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/mpi_test.h"
#include "tests/reference/fixture.h"

#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using test::TestTensor;

// A fixture's model with tied embeddings, regardless of its config.
class TiedModel {
 public:
  explicit TiedModel(const std::filesystem::path& folder)
      : config_(load_config(folder)), tensors_(read_tensors(folder / "model.safetensors")) {
    config_.tie_word_embeddings = true;
    const auto stored = SafetensorsCheckpoint::open(folder);
    const TensorNames names = make_spec(config_).names.as_stored_in(*stored);
    embedding_name_ = tensor_names::weight_of(names.embed_tokens);
    head_name_ = tensor_names::weight_of(names.lm_head);
    std::erase_if(tensors_, [&](const TestTensor& tensor) { return tensor.name == head_name_; });
  }

  const CheckpointConfig& config() const { return config_; }

  void store_as_embedding() {}
  void store_as_head() { embedding().name = head_name_; }
  void store_as_both() {
    TestTensor head = embedding();
    head.name = head_name_;
    tensors_.push_back(std::move(head));
  }
  // Changes a row of the LM head. Call it after store_as_both.
  void change_row(std::size_t row) {
    std::string& data = tensors_.back().data;
    data[row * (data.size() / config_.vocab_size)] ^= 1;
  }

  std::unique_ptr<WeightSource> open() const {
    folder_.write("model.safetensors", test::safetensors_file(tensors_));
    return SafetensorsCheckpoint::open(folder_.path());
  }

 private:
  static std::vector<TestTensor> read_tensors(const std::filesystem::path& path) {
    const std::string bytes = file_text(path);
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    const nlohmann::json header = nlohmann::json::parse(bytes.substr(sizeof size, size));
    std::vector<TestTensor> tensors;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const std::size_t begin = entry["data_offsets"][0];
      const std::size_t end = entry["data_offsets"][1];
      tensors.push_back(
          {name, entry["dtype"], entry["shape"], bytes.substr(sizeof size + size + begin, end - begin)});
    }
    return tensors;
  }

  TestTensor& embedding() {
    return *std::find_if(tensors_.begin(), tensors_.end(),
                         [&](const TestTensor& tensor) { return tensor.name == embedding_name_; });
  }

  CheckpointConfig config_;
  std::vector<TestTensor> tensors_;
  std::string embedding_name_;
  std::string head_name_;
  test::TemporaryDirectory folder_;
};

// A model's logits after some tokens, [tokens, local_vocab], and its unused tensors.
struct Outcome {
  std::vector<float> logits;
  std::vector<std::string> unused;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(const CheckpointConfig& config, const WeightSource& source) {
  test::ModelUnderTest decoder(test::world(), config, source, {.length = 16, .chunk = 16});
  const std::vector<TokenId> tokens = {1, 2, 3};
  return {decoder.append(tokens), decoder.model().unused_tensors()};
}

Outcome outcome_of(const std::filesystem::path& folder, void (TiedModel::*store)()) {
  TiedModel model(folder);
  (model.*store)();
  return outcome_of(model.config(), *model.open());
}

// Fixtures with a vision tower, with a text_config, or with multi-token prediction layers.
const std::set<std::string> kHaveMore = {"exaonemoe", "glm4moelite", "hyv3",     "hyv4",
                                         "ling3",     "mimov2flash", "qwen25vl", "step35"};

TEST(TiedEmbeddings, HaveEitherNameOrBothInEveryFamily) {
  std::size_t models = 0;
  for (const reference::Fixture& fixture : reference::fixtures_of(supported_architectures())) {
    const bool is_one_file = std::filesystem::exists(fixture.folder / "model.safetensors");
    if (!is_one_file || load_config(fixture.folder).num_attention_heads < test::world().size()) continue;
    if (fixture.name == "reformer") continue;  // its configs reject tied embeddings
    ++models;
    const Outcome usual = outcome_of(fixture.folder, &TiedModel::store_as_embedding);
    const bool has_more =
        kHaveMore.contains(fixture.name) || test::config_in(fixture.folder).contains("text_config");
    EXPECT_EQ(usual.unused.empty(), !(has_more && test::world().is_root())) << fixture.name;
    EXPECT_TRUE(outcome_of(fixture.folder, &TiedModel::store_as_head) == usual) << fixture.name;
    EXPECT_TRUE(outcome_of(fixture.folder, &TiedModel::store_as_both) == usual) << fixture.name;
  }
  EXPECT_GE(models, 10U);
}

// Replaces the text `from` in a GGUF file, where the length precedes the text.
std::string renamed(std::string bytes, std::string_view from, std::string_view to) {
  const std::string old_name = test::gguf_string(from);
  const std::size_t place = bytes.find(old_name);
  EXPECT_NE(place, bytes.npos) << from;
  return bytes.replace(place, old_name.size(), test::gguf_string(to));
}

Outcome outcome_of_gguf(const std::string& bytes) {
  const test::TemporaryDirectory folder;
  const std::filesystem::path file = folder.write("model.gguf", bytes);
  const CheckpointConfig config = load_config(file);
  EXPECT_TRUE(config.tie_word_embeddings);
  return outcome_of(config, *GgufCheckpoint::open(file));
}

TEST(TiedEmbeddings, HaveEitherNameInGgufFiles) {
  std::size_t models = 0;
  for (const reference::Fixture& fixture : reference::gguf_fixtures()) {
    const std::string both = file_text(fixture.folder / "model.gguf");
    const CheckpointConfig config = load_config(fixture.folder / "model.gguf");
    if (config.tie_word_embeddings || config.num_attention_heads < test::world().size()) continue;
    ++models;
    // Names of the same length keep the tensors' positions. A longer name compensates for a shorter one.
    const std::string as_embedding = renamed(both, "output.weight", "unused.weight");
    const std::string as_head = renamed(renamed(as_embedding, "token_embd.weight", "output.weight"),
                                        "general.type", "general.type.new");
    EXPECT_TRUE(outcome_of_gguf(as_head) == outcome_of_gguf(as_embedding)) << fixture.name;
  }
  EXPECT_GE(models, 2U);
}

// Each rank compares its own rows, and all ranks get the result.
TEST(TiedEmbeddings, StoredAsTwoDifferentMatricesAreAnError) {
  Communicator& comm = test::world();
  const reference::Fixture fixture = reference::fixture("llama-12q3kv");
  const std::size_t last = load_config(fixture.folder).vocab_size - 1;
  for (const std::size_t row : {std::size_t{0}, last}) {
    TiedModel model(fixture.folder);
    model.store_as_both();
    model.change_row(row);
    const auto source = model.open();
    EXPECT_EQ(
        test::error_of<AgreedError>([&] {
          fail_together(comm, [&] { Model(make_spec(model.config()), *source, {comm.rank(), comm.size()}); });
        }),
        fmt::format("cannot use one matrix as embedding and LM head: config.json ties them "
                    "(tie_word_embeddings), but model.embed_tokens.weight and lm_head.weight differ in "
                    "row {}; set tie_word_embeddings to false if the model has its own LM head; otherwise "
                    "download the checkpoint again",
                    row));
  }
}

}  // namespace
}  // namespace tp
