// The server's endpoints for encoders: /v1/embeddings, /v1/rerank and /v1/score.
#include "model/tokenizer/text/base64.h"
#include "tests/expect_contains.h"
#include "tests/launch/damaged_weights.h"
#include "tests/launch/text_encoder.h"
#include "tests/reference/encoder_fixture.h"
#include "tests/runtime/engine/list_reranker_folder.h"
#include "tests/serve/served_program.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

TEST(ServeEncoder, EmbedsTokensAndTextsInEitherEncoding) {
  const TextEncoder model("bert-embed-mean");
  const reference::EncoderFixture fixture = reference::encoder_fixture("bert-embed-mean");
  ServedProgram server(2, {"--model", model.path()});
  const json input = {fixture.batch[0].ids, fixture.batch[1].ids};
  const json reply = server.post("/v1/embeddings", {{"input", input}}).json();
  EXPECT_EQ(reply.at("object"), "list");
  EXPECT_EQ(reply.at("usage").at("prompt_tokens"), fixture.batch[0].ids.size() + fixture.batch[1].ids.size());
  const auto floats = reply.at("data").at(1).at("embedding").get<std::vector<float>>();
  const json packed = server.post("/v1/embeddings", {{"input", input}, {"encoding_format", "base64"}}).json();
  const std::string bytes = *decoded_base64(packed.at("data").at(1).at("embedding").get<std::string>());
  std::vector<float> decoded(bytes.size() / sizeof(float));
  std::memcpy(decoded.data(), bytes.data(), bytes.size());
  ASSERT_EQ(decoded.size(), floats.size());
  for (std::size_t i = 0; i < floats.size(); ++i) EXPECT_NEAR(decoded[i], floats[i], 1e-6);
  double squares = 0.0;
  for (const float element : floats) squares += static_cast<double>(element) * element;
  EXPECT_NEAR(squares, 1.0, 1e-5) << "modules.json normalizes";
  const json text = server.post("/v1/embeddings", {{"input", "red sky"}, {"dimensions", 5}}).json();
  EXPECT_EQ(text.at("data").at(0).at("embedding").size(), 5U);
  EXPECT_EQ(text.at("usage").at("prompt_tokens"), 4);
  EXPECT_EQ(server.post("/v1/embeddings", {{"input", json::array()}}).status, 400);
  EXPECT_EQ(server.post("/v1/embeddings", {{"input", "a"}, {"dimensions", 1000}}).status, 400);
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "red"}}).status, 400) << "it generates nothing";
  EXPECT_EQ(server.post("/v1/rerank", {{"query", "red"}, {"documents", {"sky"}}}).status, 400);
  server.end();
}

// Sends thousands of short calls. Some clients leave before, during or after the computation of their answer.
TEST(ServeEncoder, OutlivesThousandsOfCallsAndClientsThatLeave) {
  const char* const wanted = std::getenv("TP_SOAK");
  const int calls = wanted != nullptr ? std::atoi(wanted) : 2000;
  const TextEncoder model("xlmroberta-reranker");
  ServedProgram server(kNoMpirun, {"--model", model.path(), "--quiet"});
  const std::string embed = request_text("POST", "/v1/embeddings", R"({"input": ["red sky", "blue"]})");
  const std::string rank = request_text("POST", "/v1/rerank", R"({"query": "blue", "documents": ["sky"]})");
  std::atomic<int> next = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int number = next++; number < calls; number = next++) {
        HttpClient client(server.port());
        client.send(number % 2 == 0 ? embed : rank);
        if (number % 5 == 0) {
          client.reset();
        } else {
          ASSERT_EQ(client.read().status, 200) << "call " << number;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(server.is_idle());
  EXPECT_EQ(server.status().at("requests").at("waiting"), 0);
  server.end();
}

// The largest finite weight makes the results infinite.
TEST(ServeEncoder, AnswersWithAnErrorInPlaceOfResultsThatAreNotFinite) {
  constexpr float kGreatest = std::numeric_limits<float>::max();
  const TextEncoder embedder("bert-embed-mean");
  overwrite(embedder.path(), "encoder.layer.2.output.LayerNorm.weight", kGreatest, 0, 0);
  ServedProgram embeddings(1, {"--model", embedder.path()});
  const auto embedded = embeddings.post("/v1/embeddings", {{"input", "red sky"}});
  EXPECT_EQ(embedded.status, 500);
  EXPECT_CONTAINS(embedded.body, "not finite");
  embeddings.end();
  const TextEncoder reranker("xlmroberta-reranker");
  overwrite(reranker.path(), "classifier.out_proj.weight", kGreatest, 0, 0);
  overwrite(reranker.path(), "classifier.dense.bias", 9.0F, 0, 0);  // the sum exceeds the largest float
  ServedProgram scores(1, {"--model", reranker.path()});
  const auto ranked = scores.post("/v1/rerank", {{"query", "red"}, {"documents", {"sky"}}});
  EXPECT_EQ(ranked.status, 500);
  EXPECT_CONTAINS(ranked.body, "not finite");
  scores.end();
}

TEST(ServeEncoder, RanksDocuments) {
  const TextEncoder model("xlmroberta-reranker");
  ServedProgram server(2, {"--model", model.path()});
  const json request = {{"query", "blue sky"},
                        {"documents", {"red", json{{"text", "green sky"}}, "sky sky sky"}},
                        {"top_n", 2},
                        {"return_documents", true}};
  const json reply = server.post("/v2/rerank", request).json();
  EXPECT_EQ(server.post("/v1/reranking", request).json().at("results"), reply.at("results"));
  ASSERT_EQ(reply.at("results").size(), 2U);
  EXPECT_GE(reply.at("results").at(0).at("relevance_score"), reply.at("results").at(1).at("relevance_score"));
  const auto best = reply.at("results").at(0).at("index").get<std::size_t>();
  const std::vector<std::string> documents = {"red", "green sky", "sky sky sky"};
  EXPECT_EQ(reply.at("results").at(0).at("document").at("text"), documents.at(best));
  EXPECT_EQ(server.post("/v1/rerank", {{"query", 1}, {"documents", {"sky"}}}).status, 400);
  server.end();
}

// A reranker gives the same scores as in /v1/rerank.
TEST(ServeEncoder, ScoresPairsLikeItRanksDocuments) {
  const TextEncoder model("xlmroberta-reranker");
  ServedProgram server(2, {"--model", model.path()});
  const json documents = {"red", "green sky"};
  const json ranked = server.post("/v1/rerank", {{"query", "blue sky"}, {"documents", documents}}).json();
  const json reply = server.post("/score", {{"text_1", "blue sky"}, {"text_2", documents}}).json();
  EXPECT_EQ(reply.at("object"), "list");
  ASSERT_EQ(reply.at("data").size(), 2U);
  for (const json& result : ranked.at("results")) {
    const json& scored = reply.at("data").at(result.at("index").get<std::size_t>());
    EXPECT_EQ(scored.at("object"), "score");
    EXPECT_EQ(scored.at("score"), result.at("relevance_score"));
  }
  const json pairs = {{"text_1", {"blue", "red"}}, {"text_2", {"sky", "sky"}}};
  EXPECT_EQ(server.post("/v1/score", pairs).json().at("data").size(), 2U);
  const json logits = {{"text_1", "blue sky"}, {"text_2", "red"}, {"use_activation", false}};
  const double logit = server.post("/v1/score", logits).json().at("data").at(0).at("score");
  EXPECT_NEAR(1 / (1 + std::exp(-logit)), reply.at("data").at(0).at("score").get<double>(), 1e-6);
  EXPECT_EQ(server.post("/v1/score", {{"text_1", {"a", "b"}}, {"text_2", {"c"}}}).status, 400);
  const auto refused =
      server.post("/v1/score", {{"text_1", "a"}, {"text_2", "b"}, {"truncate_prompt_tokens", 8}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_CONTAINS(refused.body, "truncate_prompt_tokens");
  const json raw =
      server.post("/v1/rerank", {{"query", "blue sky"}, {"documents", {"red"}}, {"use_activation", false}})
          .json();
  EXPECT_NEAR(raw.at("results").at(0).at("relevance_score").get<double>(), logit, 1e-6);
  // Pairing a text of 40 KiB with 2048 others would need 80 MiB for a small request body.
  const std::string text(40 << 10, 'a');
  const std::vector<std::string> others(2048, "b");
  for (const auto& [path, body] : {std::pair("/v1/score", json{{"text_1", text}, {"text_2", others}}),
                                   std::pair("/v1/rerank", json{{"query", text}, {"documents", others}})}) {
    const auto reply_to_many = server.post(path, body);
    EXPECT_EQ(reply_to_many.status, 400);
    EXPECT_CONTAINS(reply_to_many.body, "expected at most 32768 bytes with 2048 other texts");
  }
  server.end();
}

// One text with a list of texts is treated as a query with a list of documents. The scores are cosines, with
// or without an activation.
TEST(ServeEncoder, ScoresListsWithAListwiseReranker) {
  const ListRerankerFolder model;
  ServedProgram server(2, {"--model", model.path()});
  const json documents = {"red", "a green sky", "blue"};
  const json reply = server.post("/v1/rerank", {{"query", "sky?"}, {"documents", documents}}).json();
  ASSERT_EQ(reply.at("results").size(), 3U);
  const json scored = server.post("/score", {{"text_1", "sky?"}, {"text_2", documents}}).json();
  const json raw =
      server.post("/rerank", {{"query", "sky?"}, {"documents", documents}, {"use_activation", false}}).json();
  ASSERT_EQ(raw.at("results").size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const json& result = reply.at("results")[i];
    const double score = result.at("relevance_score");
    EXPECT_LE(std::abs(score), 1.0);
    // Later calls find part of the prompt in the cache, which may change the last bits.
    EXPECT_EQ(raw.at("results")[i].at("index"), result.at("index"));
    EXPECT_NEAR(raw.at("results")[i].at("relevance_score").get<double>(), score, 1e-5);
    const json& same = scored.at("data").at(result.at("index").get<std::size_t>());
    EXPECT_NEAR(same.at("score").get<double>(), score, 1e-5);
  }
  EXPECT_EQ(scored.at("usage"), reply.at("usage"));
  // Two lists of two texts are two lists of one document, so each has its own prompt.
  const json pairs = {{"text_1", {"sky?", "sky?"}}, {"text_2", {"red", "blue"}}};
  const json apart = server.post("/v1/score", pairs).json();
  ASSERT_EQ(apart.at("data").size(), 2U);
  const json alone = server.post("/v1/score", {{"text_1", "sky?"}, {"text_2", "red"}}).json();
  EXPECT_NEAR(apart.at("data").at(0).at("score").get<double>(),
              alone.at("data").at(0).at("score").get<double>(), 1e-5);
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", "sky?"}}).status, 400);
  server.end();
}

TEST(ServeEncoder, ScoresTextsOfAnEmbedderByTheirAngle) {
  const TextEncoder model("bert-embed-mean");
  ServedProgram server(1, {"--model", model.path()});
  const json texts = {"red sky", "blue"};
  const json embedded = server.post("/v1/embeddings", {{"input", texts}}).json();
  const auto vector = [&](std::size_t i) {
    return embedded.at("data").at(i).at("embedding").get<std::vector<float>>();
  };
  double product = 0.0;
  for (std::size_t i = 0; i < vector(0).size(); ++i) product += vector(0)[i] * vector(1)[i];
  const json reply = server.post("/v1/score", {{"text_1", "red sky"}, {"text_2", texts}}).json();
  EXPECT_NEAR(reply.at("data").at(0).at("score").get<double>(), 1.0, 1e-5);
  EXPECT_NEAR(reply.at("data").at(1).at("score").get<double>(), product, 1e-5);
  server.end();
}

}  // namespace
}  // namespace tp::test
