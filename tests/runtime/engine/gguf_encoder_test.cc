// Encoders' GGUF files: the embeddings and scores of the original checkpoints, and the tokens of their
// vocabularies.
#include "model/config/config.h"
#include "model/weights/gguf/gguf_files.h"
#include "runtime/text/embedder.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/model/weights/gguf_copy.h"
#include "tests/mpi_test.h"
#include "tests/reference/json_file.h"
#include "tests/reference/name_of_fixture.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/temporary_directory.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tp {
namespace {

using test::pooled_of;
using test::run_engine;
using Vectors = std::vector<std::vector<float>>;
using Sequences = std::vector<std::vector<TokenId>>;

class GgufEncoder : public testing::TestWithParam<std::string> {
 protected:
  GgufEncoder() : folder_(std::filesystem::path(TP_TEST_DATA) / "gguf_encoders" / GetParam()) {}

  void run(const std::function<void(Engine&)>& body) {
    const CheckpointConfig config = load_config(model_);
    if (config.num_attention_heads < comm_.size())
      GTEST_SKIP() << comm_.size() << " ranks, " << config.num_attention_heads << " heads";
    run_engine(comm_, {.model = model_, .weights = WeightType::f32, .block_size = 8}, body);
  }

  Communicator& comm_ = test::world();
  const std::filesystem::path folder_;
  const std::filesystem::path model_ = folder_ / "model.gguf";
  const nlohmann::json input_ = reference::read_json(folder_ / "input.json");
  const nlohmann::json expected_ = reference::read_json(folder_ / "expected.json");
};

void expect_near(const std::vector<float>& found, const std::vector<float>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

TEST_P(GgufEncoder, GivesTheEmbeddingsOfTheOriginalModellingCode) {
  if (!expected_.contains("embedding")) GTEST_SKIP() << "it ranks";
  run([&](Engine& engine) {
    const Embedder embedder(engine, model_, {});
    const auto rows = input_.at("rows").get<Sequences>();
    const auto expected = expected_.at("embedding").get<Vectors>();
    for (std::size_t row = 0; row < rows.size(); ++row)
      expect_near(embedder.embedding(pooled_of(engine, embedder.ask_for_state(prompt_request(rows[row])))),
                  expected[row], 1e-4);
  });
}

TEST_P(GgufEncoder, GivesTheScoresOfTheOriginalModellingCode) {
  if (!expected_.contains("scores")) GTEST_SKIP() << "it embeds";
  run([&](Engine& engine) {
    ASSERT_EQ(engine.info().kind, ModelKind::classifier);
    const auto rows = input_.at("rows").get<Sequences>();
    const auto expected = expected_.at("scores").get<std::vector<float>>();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Request request = prompt_request(rows[row]);
      request.pooling = engine.info().head_pooling;
      expect_near(engine.sequence_head(pooled_of(engine, std::move(request))), {expected[row]}, 1e-3);
    }
  });
}

TEST_P(GgufEncoder, TokenizesLikeLlamaCpp) {
  if (!expected_.contains("token_ids")) GTEST_SKIP() << "its texts are not known";
  run([&](Engine& engine) {
    const auto texts = input_.at("texts").get<std::vector<std::string>>();
    const auto expected = expected_.at("token_ids").get<Sequences>();
    for (std::size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(engine.encode(texts[i]), expected[i]) << texts[i];
  });
}

// Pairs of texts are "[CLS] a [SEP] b [SEP]" with types, or "<s> a </s></s> b </s>" without types.
TEST_P(GgufEncoder, JoinsPairsLikeTheOriginalTokenizer) {
  if (GetParam() == "gemma-embedding") GTEST_SKIP() << "it joins no texts";
  run([&](Engine& engine) {
    const EncodedPair pair = engine.encode_pair("a", "b c");
    const std::vector<TokenId> both = engine.encode("a");
    const std::vector<TokenId> second = engine.encode("b c");
    const bool is_roberta = GetParam() == "bert-reranker";
    std::vector<TokenId> expected = both;
    if (is_roberta) expected.push_back(both.back());
    expected.insert(expected.end(), second.begin() + 1, second.end());
    EXPECT_EQ(pair.ids, expected);
    std::vector<std::uint8_t> types(expected.size());
    if (!is_roberta) std::fill(types.begin() + static_cast<std::ptrdiff_t>(both.size()), types.end(), 1);
    EXPECT_EQ(pair.token_types, types);
  });
}

// Returns Jina's fixture with gates and ups in separate tensors, like in older files.
std::string jina_with_separate_gates(const std::filesystem::path& file) {
  const GgufFiles files(file);
  test::GgufBuilder builder;
  test::copy_metadata(files, builder);
  for (const auto& [name, entry] : files.tensors()) {
    const std::size_t place = name.find("ffn_up");
    if (place == std::string::npos) {
      test::copy_tensor(entry, builder);
      continue;
    }
    const std::string bytes = test::bytes_in(entry);
    const std::vector<std::uint64_t> half = {entry.tensor.shape[0] / 2, entry.tensor.shape[1]};
    builder.tensor(std::string(name).replace(place, 6, "ffn_gate"), half, "F32",
                   bytes.substr(0, bytes.size() / 2));
    builder.tensor(name, half, "F32", bytes.substr(bytes.size() / 2));
  }
  return builder.file();
}

TEST(GgufJina, MayStoreGatesSeparately) {
  const std::filesystem::path folder = std::filesystem::path(TP_TEST_DATA) / "gguf_encoders" / "jina-bert-v2";
  const test::TemporaryDirectory directory;
  const std::filesystem::path file =
      directory.write("model.gguf", jina_with_separate_gates(folder / "model.gguf"));
  if (load_config(file).num_attention_heads < test::world().size()) GTEST_SKIP() << "too few heads";
  run_engine(
      test::world(), {.model = file, .weights = WeightType::f32, .block_size = 8}, [&](Engine& engine) {
        EXPECT_EQ(engine.info().unused_tensors, std::vector<std::string>());
        const Embedder embedder(engine, file, {});
        const auto rows = reference::read_json(folder / "input.json").at("rows").get<Sequences>();
        const auto expected = reference::read_json(folder / "expected.json").at("embedding").get<Vectors>();
        expect_near(embedder.embedding(pooled_of(engine, embedder.ask_for_state(prompt_request(rows[0])))),
                    expected[0], 1e-4);
      });
}

std::vector<std::string> gguf_encoders() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TP_TEST_DATA) / "gguf_encoders"))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Files, GgufEncoder, testing::ValuesIn(gguf_encoders()), reference::name_of_fixture);

}  // namespace
}  // namespace tp
