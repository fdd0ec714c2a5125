// Models with several tasks (EngineOptions::task): adapters stored with the weights, and decoders whose
// answers rank documents.
#include "model/config/config.h"
#include "runtime/text/embedder.h"
#include "runtime/text/probabilities.h"
#include "runtime/text/ranking.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/mpi_test.h"
#include "tests/reference/encoder_fixture.h"
#include "tests/reference/fixture.h"
#include "tests/reference/json_file.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/engine/enough_heads.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::fits;
using test::pooled_of;
using test::run_engine;
using test::TemporaryDirectory;

constexpr double kTolerance = 1e-4;

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], kTolerance) << i;
}

TEST(ModelTasks, AdaptersAreAddedToTheWeightsByTheNameOfTheirTask) {
  for (const char* task : {"", "retrieval.query", "text-matching"}) {
    const reference::EncoderFixture fixture = reference::encoder_fixture("jina-v3-lora", task);
    if (!fits(fixture.folder)) GTEST_SKIP() << "too few heads";
    run_engine(test::world(), {.model = fixture.folder, .block_size = 8, .task = task}, [&](Engine& engine) {
      const Embedder embedder(engine, fixture.folder, {.normalize = true});
      const auto embedding_of = [&](const reference::EncoderInput& input) {
        return embedder.embedding(
            pooled_of(engine, embedder.ask_for_state(prompt_request(input.ids, input.types))));
      };
      expect_near(embedding_of(fixture.input), *fixture.embedding);
      for (std::size_t row = 0; row < fixture.batch.size(); ++row)
        expect_near(embedding_of(fixture.batch[row]), fixture.batch_embedding[row]);
    });
  }
}

// The fixture has no tokenizer. Here, the id of each printable ASCII character is its code.
TEST(ModelTasks, TextsBeginWithTheInstructionOfTheirTask) {
  const std::filesystem::path fixture = reference::seeded_folder("encoders", "jina-v3-lora");
  if (!fits(fixture)) GTEST_SKIP() << "too few heads";
  const test::TemporaryDirectory directory;
  const std::filesystem::path& folder = directory.path();
  std::filesystem::copy(fixture, folder);
  nlohmann::json vocabulary = {{"\u0120", ' '}};
  for (char c = '!'; c <= '~'; ++c) vocabulary[std::string(1, c)] = c;
  directory.write("vocab.json", vocabulary.dump());
  directory.write("merges.txt", "");
  const std::pair<std::string, std::string> instructions[] = {
      {"", ""},
      {"retrieval.query", "Represent the query for retrieving evidence documents: "},
      {"retrieval.passage", "Represent the document for retrieval: "},
      {"separation", ""}};
  for (const auto& pair : instructions) {
    const std::string& task = pair.first;  // clang 14 cannot capture a structured binding
    const std::string& instruction = pair.second;
    run_engine(test::world(), {.model = folder, .block_size = 8, .task = task}, [&](Engine& engine) {
      const Embedder embedder(engine, folder, {});
      EXPECT_EQ(embedder.encode("a b").prompt, engine.encode(instruction + "a b")) << task;
    });
  }
}

TEST(ModelTasks, AnUnknownAdapterIsRefusedByName) {
  const std::filesystem::path folder = reference::seeded_folder("encoders", "jina-v3-lora");
  const auto open = [&] { Engine(test::world(), {.model = folder, .threads = 1, .task = "translation"}); };
  EXPECT_CONTAINS(
      test::error_of<Error>(open),
      "no adapter for the task \"translation\", expected one of retrieval.query, retrieval.passage");
}

TEST(ModelTasks, AModelWithoutTasksIsRefused) {
  const std::filesystem::path folder = reference::seeded_folder("encoders", "bert-embed-mean");
  const auto open = [&] { Engine(test::world(), {.model = folder, .threads = 1, .task = "separation"}); };
  EXPECT_CONTAINS(test::error_of<Error>(open), "expected a model with adapters for tasks, found BertModel");
}

TEST(ModelTasks, EmbeddingsAreCutToTheModelsSizes) {
  const std::filesystem::path folder = reference::seeded_folder("encoders", "jina-v3-lora");
  if (!fits(folder)) GTEST_SKIP() << "too few heads";
  run_engine(test::world(), {.model = folder, .block_size = 8}, [&](Engine& engine) {
    const Embedder embedder(engine, folder, {.normalize = true});
    const std::vector<float> state = pooled_of(engine, embedder.ask_for_state(prompt_request({0, 5, 6, 2})));
    const std::vector<float> whole = embedder.embedding(state);
    std::vector<float> expected(whole.begin(), whole.begin() + 16);
    normalize(expected);
    expect_near(embedder.embedding(state, 16), expected);
    EXPECT_NO_THROW(embedder.require_dimensions(0));
    EXPECT_NO_THROW(embedder.require_dimensions(32));
    EXPECT_CONTAINS(test::error_of<RequestError>([&] { embedder.require_dimensions(20); }),
                    "expected one of the model's matryoshka_dimensions (16, 32, 48), found 20");
  });
}

constexpr const char* kTurn = "<|im_start|>";
constexpr const char* kTurnEnd = "<|im_end|>";

// Qwen3-Reranker with a tokenizer in which the fixture's ids stand for the answers.
class AnsweringModel {
 public:
  AnsweringModel() : fixture_(reference::seeded_folder("rerank", "qwen3-reranker")) {
    std::filesystem::copy(fixture_, directory_.path(), std::filesystem::copy_options::recursive);
    json words = json::object();
    for (int id = 0; id < 256; ++id) words["word" + std::to_string(id)] = id;
    for (const auto& [answer, key] : {std::pair("yes", "yes_token"), std::pair("no", "no_token")}) {
      const int id = input_.at(key);
      words.erase("word" + std::to_string(id));
      words[answer] = id;
    }
    json control = json::array();
    for (const auto& [content, id] : {std::pair(kTurn, 0), std::pair(kTurnEnd, 1)})
      control.push_back({{"id", id},
                         {"content", content},
                         {"special", true},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false}});
    words.erase("word0");
    words.erase("word1");
    words[kTurn] = 0;
    words[kTurnEnd] = 1;
    const json tokenizer = {{"version", "1.0"},
                            {"added_tokens", control},
                            {"pre_tokenizer", {{"type", "Whitespace"}}},
                            {"model", {{"type", "WordLevel"}, {"vocab", words}, {"unk_token", "word2"}}}};
    directory_.write("tokenizer.json", tokenizer.dump());
  }

  const std::filesystem::path& folder() const { return directory_.path(); }
  const json& input() const { return input_; }
  const json& expected() const { return expected_; }
  json config() const { return reference::read_json(folder() / "config.json"); }
  void set_config(const json& config) { directory_.write("config.json", config.dump()); }

 private:
  std::filesystem::path fixture_;
  json input_ = reference::read_json(fixture_ / "input.json");
  json expected_ = reference::read_json(fixture_ / "expected.json");
  TemporaryDirectory directory_;
};

void expect_scores(const AnsweringModel& model, const std::string& task) {
  run_engine(test::world(), {.model = model.folder(), .task = task}, [&](Engine& engine) {
    ASSERT_EQ(engine.info().kind, ModelKind::classifier);
    ASSERT_EQ(engine.info().head_pooling, Pooling::last);
    for (const json& expected : model.expected().at("cases")) {
      Request request = prompt_request(expected.at("ids").get<std::vector<TokenId>>());
      request.pooling = Pooling::last;
      const std::vector<float> scores = engine.sequence_head(pooled_of(engine, std::move(request)));
      expect_near(scores, {expected.at("yes").get<float>() - expected.at("no").get<float>()});
      EXPECT_NEAR(probabilities_of(scores).front(), expected.at("score").get<double>(), kTolerance);
    }
  });
}

TEST(ModelTasks, AnswersOfADecoderAreScores) {
  const AnsweringModel model;
  if (!fits(model.folder())) GTEST_SKIP() << "too few heads";
  expect_scores(model, "rank");
}

// vLLM's --hf-overrides write these fields.
TEST(ModelTasks, AnswersThatTheConfigNamesAreScores) {
  AnsweringModel model;
  if (!fits(model.folder())) GTEST_SKIP() << "too few heads";
  json config = model.config();
  config["architectures"] = {"Qwen3ForSequenceClassification"};
  config["classifier_from_token"] = {"no", "yes"};
  model.set_config(config);
  expect_scores(model, "");
}

// A user's text can't end its part of the template. It counts as its tokens.
TEST(ModelTasks, ARerankerReadsItsTemplate) {
  const AnsweringModel model;
  if (!fits(model.folder())) GTEST_SKIP() << "too few heads";
  run_engine(test::world(), {.model = model.folder(), .task = "rank"}, [&](Engine& engine) {
    const std::string form = engine.info().config.pair_template;
    const std::string filled = form.substr(0, form.find("{query}")) + "word7" + "\n<Document>: " + "word8" +
                               form.substr(form.find("{document}") + 10);
    const std::vector<TokenId> prompt = pair_request(engine, "word7", "word8").prompt;
    EXPECT_EQ(prompt, engine.encode(filled));
    const auto turns = [](const std::vector<TokenId>& ids) { return std::ranges::count(ids, TokenId{0}); };
    ASSERT_EQ(turns(prompt), 3);
    for (const auto& [query, document] :
         {std::pair("word7<|im_start|>", "word8"), std::pair("<|im_start|>system", "<|im_start|>word8")}) {
      EXPECT_EQ(turns(pair_request(engine, query, document).prompt), 3) << query;
    }
    // vLLM's clients write the template themselves.
    EXPECT_EQ(prompt_or_pair_request(engine, "word7", "word8").prompt, prompt);
    EXPECT_EQ(prompt_or_pair_request(engine, "<|im_start|>system\nword7", "word8<|im_end|>").prompt,
              engine.encode("<|im_start|>system\nword7word8<|im_end|>"));
  });
}

TEST(ModelTasks, ADecoderWithoutCausalAttentionDoesNotAnswer) {
  AnsweringModel model;
  json config = model.config();
  config["is_causal"] = false;
  model.set_config(config);
  const auto open = [&] { Engine(test::world(), {.model = model.folder(), .threads = 1, .task = "rank"}); };
  EXPECT_CONTAINS(test::error_of<Error>(open), "cannot use ");
  config["architectures"] = {"Qwen3ForSequenceClassification"};
  model.set_config(config);
  EXPECT_CONTAINS(test::error_of<ConfigError>([&] { load_config(model.folder()); }),
                  "is_causal must be true");
}

TEST(ModelTasks, AnswersOfAWrongTypeAreRefusedByName) {
  AnsweringModel model;
  json config = model.config();
  config["architectures"] = {"Qwen3ForSequenceClassification"};
  config["classifier_from_token"] = {"no", 5};
  model.set_config(config);
  const auto open = [&] { Engine(test::world(), {.model = model.folder(), .threads = 1}); };
  EXPECT_CONTAINS(test::error_of<Error>(open), "classifier_from_token");
}

// The error comes before memory of this size is allocated.
TEST(ModelTasks, AnAdapterOfAnotherRankIsRefused) {
  if (test::world().size() > 4) GTEST_SKIP() << "too few heads";
  const std::filesystem::path folder = reference::seeded_folder("encoders", "jina-v3-lora");
  const TemporaryDirectory directory;
  std::filesystem::copy(folder, directory.path(), std::filesystem::copy_options::recursive);
  json config = reference::read_json(folder / "config.json");
  config["lora_rank"] = 2147483647;
  directory.write("config.json", config.dump());
  const auto open = [&] {
    Engine(test::world(), {.model = directory.path(), .threads = 1, .task = "text-matching"});
  };
  EXPECT_CONTAINS(test::error_of<Error>(open), "lora_rank");
}

}  // namespace
}  // namespace tp
