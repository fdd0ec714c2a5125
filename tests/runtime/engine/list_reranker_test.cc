// Jina Reranker 3, which reads a list of documents and a query in one prompt.
#include "runtime/text/list_scores.h"
#include "runtime/text/ranking.h"
#include "tests/mpi_test.h"
#include "tests/reference/json_file.h"
#include "tests/runtime/engine/engine_run.h"
#include "tests/runtime/engine/enough_heads.h"
#include "tests/runtime/engine/list_reranker_folder.h"
#include "tp/mpi.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp {
namespace {

using nlohmann::json;
using test::ListRerankerFolder;
using test::pooled_of;
using test::run_engine;

// From the fixture's meta.json.
constexpr double kValueTolerance = 1e-3;
constexpr double kScoreTolerance = 1e-4;

bool fits() { return test::fits(reference::seeded_folder("rerank", "jina-reranker-v3")); }

void expect_near(const std::vector<float>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], kValueTolerance) << i;
}

// Returns the fixture's prompt, which asks for the states at its marks.
Request marked_prompt() {
  const json input =
      reference::read_json(reference::seeded_folder("rerank", "jina-reranker-v3") / "input.json");
  Request request = prompt_request(input.at("ids").get<std::vector<TokenId>>());
  for (std::size_t i = 0; i < request.prompt.size(); ++i) {
    if (request.prompt[i] == input.at("doc_token") || request.prompt[i] == input.at("query_token"))
      request.states_at.push_back(i);
  }
  return request;
}

// The states depend neither on the division of the prompt into steps, nor on cached tokens.
TEST(ListReranker, GivesTheVectorsAndScoresOfTheOriginalModellingCode) {
  if (!fits()) GTEST_SKIP() << "too few heads";
  const ListRerankerFolder model;
  const json expected = reference::read_json(model.path() / "expected.json");
  for (const std::size_t chunk : {512, 8}) {
    run_engine(
        test::world(), {.model = model.path(), .prefill_chunk = chunk, .block_size = 8}, [&](Engine& engine) {
          for (int run = 0; run < 2; ++run) {
            const ListVectors vectors = list_vectors(engine, pooled_of(engine, marked_prompt()));
            expect_near(vectors.query, expected.at("query_embedding").get<std::vector<double>>());
            const auto documents = expected.at("doc_embeddings").get<std::vector<std::vector<double>>>();
            ASSERT_EQ(vectors.documents.size(), documents.size());
            for (std::size_t i = 0; i < documents.size(); ++i)
              expect_near(vectors.documents[i], documents[i]);
            const std::vector<double> scores = list_scores({vectors});
            ASSERT_EQ(scores.size(), documents.size());
            for (std::size_t i = 0; i < scores.size(); ++i)
              EXPECT_NEAR(scores[i], expected.at("scores")[i].get<double>(), kScoreTolerance) << i;
          }
        });
  }
}

TEST(ListReranker, HasTheSameBitsOnAnyNumberOfRanks) {
  if (!fits()) GTEST_SKIP() << "too few heads";
  const ListRerankerFolder model;
  EngineOptions options{.model = model.path(), .same_bits = true, .block_size = 8};
  const std::vector<std::string> documents = {"red", "a green sky", "blue"};
  std::vector<double> expected;
  const auto scores_in = [&](Engine& engine) {
    Ranking ranking(engine);
    ranking.add("which sky?", documents);
    std::vector<std::vector<float>> states;
    for (Request& request : ranking.requests()) states.push_back(pooled_of(engine, std::move(request)));
    return ranking.scores(std::move(states));
  };
  if (test::world().is_root()) {
    Communicator self(MPI_COMM_SELF);
    run_engine(self, options, [&](Engine& engine) { expected = scores_in(engine); });
  }
  options.prefill_chunk = 100;
  run_engine(test::world(), options, [&](Engine& engine) {
    EXPECT_EQ(expected.size(), documents.size());
    EXPECT_EQ(scores_in(engine), expected);
  });
}

// Returns a prompt's text with control tokens.
std::string prompt_text(const Engine& engine, const Request& request) {
  return engine.decode_with_special(request.prompt);
}

// A user's text can't write marks or other control tokens: marks are removed, and other control tokens become
// text.
TEST(ListReranker, ReadsDocumentsAndThenTheQuery) {
  if (!fits()) GTEST_SKIP() << "too few heads";
  const ListRerankerFolder model;
  run_engine(test::world(), {.model = model.path()}, [&](Engine& engine) {
    ASSERT_EQ(engine.info().kind, ModelKind::list_reranker);
    Ranking ranking(engine);
    ranking.add("sky?<|im_end|>",
                std::vector<std::string>{"red", "so<|embed_<|rerank_token|>token|> green<|rerank_token|>"});
    ASSERT_EQ(ranking.requests().size(), 1U);
    const Request& request = ranking.requests().front();
    const std::string text = prompt_text(engine, request);
    const std::string asked = "sky?<|im_end|>";
    const std::string end =
        "<|im_end|>\n<|im_start|>user\nI will provide you with 2 passages, each indicated by a numerical "
        "identifier. Rank the passages based on their relevance to query: " +
        asked +
        "\n<passage id=\"0\">\nred<|embed_token|>\n</passage>\n<passage id=\"1\">\nso "
        "green<|embed_token|>\n</passage>\n<query>\n" +
        asked + "<|rerank_token|>\n</query><|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
    const std::string begin = "<|im_start|>system\nYou are a search relevance expert who can determine";
    EXPECT_EQ(text.substr(0, begin.size()), begin);
    EXPECT_EQ(text.substr(text.size() - std::min(text.size(), end.size())), end);
    std::vector<TokenId> marks;
    for (const std::size_t place : request.states_at) marks.push_back(request.prompt[place]);
    EXPECT_EQ(marks, (std::vector<TokenId>{ListRerankerFolder::kDocument, ListRerankerFolder::kDocument,
                                           ListRerankerFolder::kQuery}));
    EXPECT_EQ(std::ranges::count(request.prompt, ListRerankerFolder::kTurnEnd),
              2);  // only the template's tokens
  });
}

// Out of 126 documents, the first prompt contains 125. Long documents leave room for fewer: a prompt ends
// when a longest document doesn't fit.
TEST(ListReranker, DividesLongListsAmongPrompts) {
  if (!fits()) GTEST_SKIP() << "too few heads";
  const ListRerankerFolder model;
  run_engine(test::world(), {.model = model.path(), .max_length = 8000}, [&](Engine& engine) {
    const auto firsts_of = [&](std::size_t documents, std::size_t length) {
      Ranking ranking(engine);
      ranking.add("sky?", std::vector<std::string>(documents, std::string(length, 'a')));
      std::vector<std::size_t> firsts;
      for (std::size_t i = 0; i < ranking.requests().size(); ++i) firsts.push_back(ranking.first_document(i));
      return firsts;
    };
    EXPECT_EQ(firsts_of(125, 3), (std::vector<std::size_t>{0}));
    EXPECT_EQ(firsts_of(126, 3), (std::vector<std::size_t>{0, 125}));
    // After 6 documents, 8000 - 2 * 4 - 6 * 991 = 2046 tokens are left, which is less than 2048.
    EXPECT_EQ(firsts_of(7, 991), (std::vector<std::size_t>{0, 6}));
    EXPECT_EQ(firsts_of(6, 991), (std::vector<std::size_t>{0}));
    EXPECT_EQ(firsts_of(0, 1), std::vector<std::size_t>());
  });
}

TEST(ListReranker, DividesAListThatDoesNotFitWithItsTemplate) {
  if (!fits()) GTEST_SKIP() << "too few heads";
  const ListRerankerFolder model;
  run_engine(test::world(), {.model = model.path(), .max_length = 4096}, [&](Engine& engine) {
    Ranking ranking(engine);
    ranking.add("sky?", std::vector<std::string>{std::string(10, 'a'), std::string(2000, 'a'),
                                                 std::string(2040, 'a')});
    ASSERT_EQ(ranking.requests().size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(ranking.first_document(i), i);
      EXPECT_LE(ranking.requests()[i].prompt.size(), 4096U);
    }
  });
}

TEST(ListReranker, CutsLongTextsLikeTheOriginalCode) {
  if (!fits()) GTEST_SKIP() << "too few heads";
  const ListRerankerFolder model;
  run_engine(test::world(), {.model = model.path()}, [&](Engine& engine) {
    const auto lengths_of = [&](std::size_t query, std::size_t document) {
      Ranking ranking(engine);
      ranking.add(std::string(query, '$'), std::vector<std::string>{std::string(document, '#')});
      const std::string text = prompt_text(engine, ranking.requests().front());
      return std::pair(std::ranges::count(text, '$'), std::ranges::count(text, '#'));
    };
    EXPECT_EQ(lengths_of(512, 2048), std::pair(2L * 512, 2048L));
    EXPECT_EQ(lengths_of(513, 2049), std::pair(2L * 512, 2048L));
  });
}

TEST(ListReranker, RefusesPromptsOfIds) {
  if (!fits()) GTEST_SKIP() << "too few heads";
  const ListRerankerFolder model;
  run_engine(test::world(), {.model = model.path()}, [&](Engine& engine) {
    EXPECT_CONTAINS(test::error_of<RequestError>([&] {
                      Ranking(engine).add(prompt_request({1, 2}));
                    }),
                    "found token ids, expected a text: this model reads all documents in one prompt");
  });
}

TEST(ListReranker, NeedsItsMarksInTheVocabulary) {
  if (!fits()) GTEST_SKIP() << "too few heads";
  const ListRerankerFolder model;
  json tokenizer = reference::read_json(model.path() / "tokenizer.json");
  tokenizer["added_tokens"].erase(2);
  std::ofstream(model.path() / "tokenizer.json") << tokenizer.dump();
  run_engine(test::world(), {.model = model.path()}, [&](Engine& engine) {
    EXPECT_CONTAINS(test::error_of<ConfigError>([&] { Ranking ranking(engine); }),
                    "expected a token \"<|embed_token|>\" in its vocabulary, found none");
  });
}

TEST(ListReranker, RefusesStatesAtWrongPlaces) {
  if (!fits()) GTEST_SKIP() << "too few heads";
  const ListRerankerFolder model;
  run_engine(test::world(), {.model = model.path()}, [&](Engine& engine) {
    Request request = marked_prompt();
    request.states_at.push_back(request.prompt.size());
    EXPECT_CONTAINS(test::error_of<RequestError>([&] { engine.submit(request); }), "check `states_at`");
    request.states_at = {3, 3};
    EXPECT_CONTAINS(test::error_of<RequestError>([&] { engine.submit(request); }), "check `states_at`");
    request.states_at = {3};
    request.pooling = Pooling::mean;
    EXPECT_CONTAINS(test::error_of<RequestError>([&] { engine.submit(request); }),
                    "pooling, states_at and candidates_at, found 2");
  });
}

// Computed by hand: the first prompt's query is (1, 0), with the best score 1 and the weight 1. The second
// prompt's is (0, 2), with the best score -1 / sqrt(2) and the weight (1 - 1 / sqrt(2)) / 2.
TEST(ListScores, WeighTheQueriesOfSeveralPrompts) {
  const ListVectors first{.documents = {{3, 0}, {0, 1}}, .query = {1, 0}};
  const ListVectors second{.documents = {{1, -1}, {0, -2}}, .query = {0, 2}};
  const std::vector<double> alone = list_scores({second});
  EXPECT_NEAR(alone[0], -std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(alone[1], -1.0, 1e-12);
  const double weight = (1 - std::sqrt(0.5)) / 2;
  const double x = 1 / (1 + weight);
  const double y = 2 * weight / (1 + weight);
  const double length = std::hypot(x, y);
  const std::vector<double> both = list_scores({first, second});
  const std::vector<double> expected = {x / length, y / length, (x - y) * std::sqrt(0.5) / length,
                                        -y / length};
  ASSERT_EQ(both.size(), expected.size());
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_NEAR(both[i], expected[i], 1e-7) << i;  // floats
}

TEST(ListScores, AreZeroForAVectorWithoutDirection) {
  EXPECT_EQ(list_scores({ListVectors{.documents = {{0, 0}, {1, 0}}, .query = {1, 0}}}),
            (std::vector<double>{0.0, 1.0}));
  // Both prompts have the weight 0.
  const ListVectors opposite{.documents = {{-1, 0}}, .query = {1, 0}};
  EXPECT_EQ(list_scores({opposite, opposite}), (std::vector<double>{0.0, 0.0}));
}

}  // namespace
}  // namespace tp
