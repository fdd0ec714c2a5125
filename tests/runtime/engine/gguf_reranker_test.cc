// Rerankers in GGUF files: the scores of the checkpoints from which llama.cpp's converter would make them.
// Source of names, shapes and metadata: llama.cpp, conversion/bert.py and qwen.py.
#include "model/config/architectures.h"
#include "runtime/text/embedder.h"
#include "tests/model/weights/gguf_builder.h"
#include "tests/model/weights/gguf_conversion.h"
#include "tests/mpi_test.h"
#include "tests/reference/json_file.h"
#include "tests/reference/seeded_weights.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/engine/enough_heads.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using reference::Fixture;
using test::fits;
using test::GgufBuilder;
using test::GgufConversion;
using test::run_engine;
using test::TemporaryDirectory;
using test::TensorValues;

constexpr double kTolerance = 1e-4;  // for scores, from the fixture's meta.json

// Returns the first element of each sequence's first row.
std::vector<float> scores_of(const std::filesystem::path& model,
                             const std::vector<std::vector<TokenId>>& rows) {
  std::vector<float> scores;
  run_engine(test::world(), {.model = model, .weights = WeightType::f32, .block_size = 8},
             [&](Engine& engine) {
               ASSERT_EQ(engine.info().kind, ModelKind::classifier);
               ASSERT_EQ(engine.info().unused_tensors, std::vector<std::string>());
               for (const std::vector<TokenId>& row : rows) {
                 Request request = prompt_request(row);
                 request.pooling = engine.info().head_pooling;
                 const std::vector<float> pooled = test::pooled_of(engine, std::move(request));
                 scores.push_back(engine.sequence_head(pooled).front());
               }
             });
  return scores;
}

// Qwen3-Reranker in the converter's form: rows of the embedding as a separate layer, and no LM head.
class Qwen3Reranker {
 public:
  Qwen3Reranker() : conversion_(fixture_, "qwen3") {
    for (std::size_t layer = 0; layer < conversion_.config().num_hidden_layers; ++layer) {
      conversion_.copy_block(layer, test::kLlamaBlock);
      conversion_.copy(fmt::format("blk.{}.ffn_norm.weight", layer),
                       fmt::format("model.layers.{}.post_attention_layernorm.weight", layer));
    }
    conversion_.whole("pooling_type", 4);
    set_scores({input_.at("yes_token"), input_.at("no_token")});
  }

  const Fixture& fixture() const { return fixture_; }
  const json& cases() const { return expected_.at("cases"); }
  GgufConversion& conversion() { return conversion_; }

  // The score layer consists of these tokens' rows.
  void set_scores(const std::vector<std::size_t>& tokens) {
    const TensorValues table = conversion_.read("model.embed_tokens.weight");
    TensorValues scores{{tokens.size(), table.shape[1]}, {}};
    for (const std::size_t token : tokens) {
      const auto row = table.elements.begin() + static_cast<std::ptrdiff_t>(token * table.shape[1]);
      scores.elements.insert(scores.elements.end(), row, row + static_cast<std::ptrdiff_t>(table.shape[1]));
    }
    conversion_.write("cls.output.weight", scores);
  }
  // `change` adds metadata that is not a number.
  std::filesystem::path write(const std::function<void(GgufBuilder&)>& change) const {
    GgufBuilder builder = conversion_.builder();
    change(builder);
    return directory_.write("model.gguf", builder.file());
  }
  std::filesystem::path write_with_labels(const std::vector<std::string>& labels) const {
    return write([&](GgufBuilder& file) { file.texts("qwen3.classifier.output_labels", labels); });
  }
  std::vector<std::vector<TokenId>> rows() const {
    std::vector<std::vector<TokenId>> rows;
    for (const json& one : cases()) rows.push_back(one.at("ids"));
    return rows;
  }

 private:
  Fixture fixture_{.name = {},
                   .folder = reference::seeded_folder("rerank", "qwen3-reranker"),
                   .prompt = {},
                   .greedy = {},
                   .rows = {},
                   .greedy_rows = {}};
  json input_ = reference::read_json(fixture_.folder / "input.json");
  json expected_ = reference::read_json(fixture_.folder / "expected.json");
  GgufConversion conversion_;
  TemporaryDirectory directory_;
};

TEST(GgufReranker, GivesQwen3TheScoresOfTheCheckpoint) {
  const Qwen3Reranker model;
  if (!fits(model.fixture().folder)) GTEST_SKIP() << "too few heads";
  const std::filesystem::path file = model.write_with_labels({"yes", "no"});
  const CheckpointConfig config = load_config(file);
  EXPECT_EQ(config.architecture, "Qwen3ForSequenceClassification");
  EXPECT_EQ(config.labels, std::vector<std::string>{"yes"});
  const std::vector<float> scores = scores_of(file, model.rows());
  if (!test::world().is_root()) return;
  ASSERT_EQ(scores.size(), model.cases().size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const json& expected = model.cases()[i];
    EXPECT_NEAR(scores[i], expected.at("yes").get<double>() - expected.at("no").get<double>(),
                10 * kTolerance);
    EXPECT_NEAR(1 / (1 + std::exp(-scores[i])), expected.at("score").get<double>(), kTolerance);
  }
}

// Files without labels, and files of a checkpoint that already had one row.
TEST(GgufReranker, AllowsQwen3WithoutLabelsOrWithOneRow) {
  Qwen3Reranker model;
  EXPECT_EQ(load_config(model.write([](GgufBuilder&) {})).encoder.classifier_token_ids,
            (std::vector<TokenId>{1, 0}));
  model.set_scores({5});
  const std::filesystem::path file = model.write_with_labels({"relevance"});
  EXPECT_EQ(load_config(file).labels, std::vector<std::string>{"relevance"});
  EXPECT_EQ(load_config(file).encoder.classifier_token_ids, std::vector<TokenId>());
  if (!fits(model.fixture().folder)) GTEST_SKIP() << "too few heads";
  const std::vector<float> one = scores_of(file, model.rows());
  model.set_scores({5, 6});
  const std::vector<float> difference = scores_of(model.write_with_labels({"yes", "no"}), model.rows());
  model.set_scores({6});
  const std::vector<float> other = scores_of(model.write_with_labels({"relevance"}), model.rows());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i] - other[i], difference[i], kTolerance) << i;
}

// Two rows with other labels are scores of these labels.
TEST(GgufReranker, ReadsQwen3WithOtherLabelsAsAClassifier) {
  const Qwen3Reranker model;
  EXPECT_EQ(load_config(model.write_with_labels({"no", "yes"})).labels,
            (std::vector<std::string>{"no", "yes"}));
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] { load_config(model.write_with_labels({"yes"})); }),
                  "classifier.output_labels must have a label for each row of cls.output.weight, 2, found 1");
}

TEST(GgufReranker, ReadsQwen3sTemplateFromTheFile) {
  const Qwen3Reranker model;
  const auto config_with = [&](const std::string& form) {
    return load_config(
        model.write([&](GgufBuilder& file) { file.text("tokenizer.chat_template.rerank", form); }));
  };
  EXPECT_EQ(config_with("{document} answers {query}?").pair_template, "{document} answers {query}?");
  EXPECT_CONTAINS(load_config(model.write([](GgufBuilder&) {})).pair_template, "<Query>: {query}\n");
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] { config_with("{query}?"); }),
                  "the template of a reranker must contain {query} and {document}, found \"{query}?\"");
  EXPECT_CONTAINS(config_with("\xFF{query}{document}").pair_template, "\uFFFD{query}");  // not UTF-8
}

TEST(GgufReranker, RejectsQwen3WithoutALayerForScores) {
  GgufBuilder file;
  file.text("general.architecture", "qwen3").whole("qwen3.pooling_type", 4);
  file.tensor("token_embd.weight", {20, 16}, "F32", std::string(20 * 16 * sizeof(float), 0));
  for (const char* key :
       {"context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count"})
    file.whole(fmt::format("qwen3.{}", key), 1);
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("model.gguf", file.file());
  EXPECT_CONTAINS(test::error_of<CheckpointError>([&] { load_config(path); }),
                  "pooling_type is 4 (rank), expected the tensor cls.output.weight, found none");
}

// A head over a body that this architecture's families have no class for.
TEST(GgufReranker, RejectsAnUnknownClassByItsHead) {
  GgufBuilder file;
  file.text("general.architecture", "nomic-bert").whole("nomic-bert.pooling_type", 4);
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("model.gguf", file.file());
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] { load_config(path); }),
                  "GGUF models of the architecture nomic-bert are not supported with the head that this file "
                  "has (pooling_type 4)");
}

// ModernBERT's fixture with a classifier's last layer, whose weights follow the fixtures' formula.
class ModernBertReranker {
 public:
  explicit ModernBertReranker(const char* pooling) {
    const std::filesystem::path given =
        std::filesystem::path(TP_TEST_DATA) / "seeded/encoders/modernbert-mlm";
    json config = reference::read_json(given / "config.json");
    config["architectures"] = {"ModernBertForSequenceClassification"};
    config["num_labels"] = 1;
    config["classifier_pooling"] = pooling;
    directory_.write("config.json", config.dump());
    json weights = reference::read_json(given / "weights.json");
    json& tensors = weights.at("tensors");
    std::erase_if(tensors.get_ref<json::array_t&>(), [](const json& tensor) {
      return tensor.at("name").get<std::string>().starts_with("decoder");
    });
    for (const auto& [name, shape] :
         {std::pair{"classifier.weight", json{1, 48}}, {"classifier.bias", json::array({1})}})
      tensors.push_back(
          {{"name", name}, {"shape", shape}, {"dtype", "F32"}, {"base", 0.0}, {"amplitude", 0.5}});
    reference::write_seeded_weights(directory_.write("weights.json", weights.dump()),
                                    directory_.path() / "model.safetensors");
  }

  const std::filesystem::path& folder() const { return directory_.path(); }
  std::filesystem::path write_gguf(const std::function<void(GgufConversion&)>& change) const {
    const Fixture fixture{
        .name = {}, .folder = folder(), .prompt = {}, .greedy = {}, .rows = {}, .greedy_rows = {}};
    GgufConversion to(fixture, "modern-bert");
    for (std::size_t layer = 0; layer < to.config().num_hidden_layers; ++layer)
      to.copy_block(layer, {{"attn_norm.weight", "attn_norm.weight"},
                            {"attn_qkv.weight", "attn.Wqkv.weight"},
                            {"attn_output.weight", "attn.Wo.weight"},
                            {"ffn_norm.weight", "mlp_norm.weight"},
                            {"ffn_up.weight", "mlp.Wi.weight"},
                            {"ffn_down.weight", "mlp.Wo.weight"}});
    to.copy("token_embd.weight", "model.embeddings.tok_embeddings.weight");
    to.copy("token_embd_norm.weight", "model.embeddings.norm.weight");
    to.copy("output_norm.weight", "model.final_norm.weight");
    to.copy("cls.weight", "head.dense.weight");
    to.copy("cls.norm.weight", "head.norm.weight");
    to.copy("cls.output.weight", "classifier.weight");
    to.copy("cls.output.bias", "classifier.bias");
    to.boolean("attention.causal", false);
    to.whole("attention.sliding_window", to.config().sliding_window);
    to.whole("attention.sliding_window_pattern", to.config().encoder.global_attn_every_n_layers);
    change(to);
    return directory_.write("model.gguf", to.file());
  }

 private:
  TemporaryDirectory directory_;
};

// The head follows the mean of all states, or the first state if the file names it.
TEST(GgufReranker, GivesModernBertTheScoresOfTheCheckpoint) {
  const std::vector<std::vector<TokenId>> rows = {{2, 9, 30, 41, 52, 63, 74, 85, 96, 107, 118, 129, 3},
                                                  {2, 200, 150, 3}};
  for (const auto& [name, number] : {std::pair{"mean", 0}, {"mean", 1}, {"cls", 2}}) {
    const ModernBertReranker model(name);
    if (!fits(model.folder())) GTEST_SKIP() << "too few heads";
    const std::vector<float> expected = scores_of(model.folder(), rows);
    const std::filesystem::path file = model.write_gguf([number = number](GgufConversion& to) {
      if (number != 0) {
        to.whole("classifier.pooling_type", static_cast<std::size_t>(number));
        to.whole("pooling_type", 4);
      }
    });
    const std::vector<float> found = scores_of(file, rows);
    if (!test::world().is_root()) continue;
    ASSERT_EQ(found.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6) << name << number;
  }
}

TEST(GgufReranker, RejectsAnotherPoolingOfModernBertByName) {
  const ModernBertReranker model("mean");
  const std::filesystem::path file = model.write_gguf([](GgufConversion& to) {
    to.whole("pooling_type", 4);
    to.whole("classifier.pooling_type", 3);
  });
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] { load_config(file); }),
                  "classifier.pooling_type must be 1 (mean) or 2 (cls), found 3");
}

// The file of a model without windows has no key for them.
TEST(GgufReranker, AllowsModernBertWithoutWindows) {
  const ModernBertReranker model("mean");
  const auto windows_in = [&](bool has_windows) {
    const std::filesystem::path file = model.write_gguf([&](GgufConversion& to) {
      if (!has_windows) to.remove("attention.sliding_window");
    });
    std::vector<bool> windows;
    for (const BlockSpec& block : make_spec(load_config(file)).blocks)
      windows.push_back(std::get<AttentionSpec>(block.attention).pattern.window.has_value());
    return windows;
  };
  EXPECT_EQ(windows_in(true), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(windows_in(false), std::vector<bool>(4, false));
}

}  // namespace
}  // namespace tp
