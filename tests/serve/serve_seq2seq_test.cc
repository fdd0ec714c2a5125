// A server with an encoder-decoder model.
#include "tests/launch/text_seq2seq.h"
#include "tests/serve/served_program.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

TEST(ServeSeq2Seq, CompletesWhatTheEncoderReadsWithAndWithoutBeams) {
  const TextSeq2Seq model;
  ServedProgram server(2, {"--model", model.path()});
  const std::vector<TokenId> ids = {36, 245, 118, 196, 72, 103, 202};
  json call = {{"prompt", TextSeq2Seq::decoded(ids)}, {"max_tokens", 8}, {"temperature", 0}};
  const json greedy = server.post("/v1/completions", call).json();
  const auto text = greedy.at("choices").at(0).at("text").get<std::string>();
  EXPECT_TRUE(text.starts_with("w")) << text;
  EXPECT_EQ(greedy.at("usage").at("prompt_tokens"), ids.size() + 1);
  call["beams"] = 4;
  call["n"] = 2;
  const json searched = server.post("/v1/completions", call).json();
  ASSERT_EQ(searched.at("choices").size(), 2U);
  EXPECT_NE(searched.at("choices").at(0).at("text"), searched.at("choices").at(1).at("text"));
  call["temperature"] = 1;
  EXPECT_EQ(server.post("/v1/completions", call).status, 400) << "a search draws nothing";
  const json messages = {{{"role", "user"}, {"content", "w12"}}};
  EXPECT_EQ(server.post("/v1/chat/completions", {{"messages", messages}}).status, 400)
      << "it has no template";
  EXPECT_EQ(server.post("/v1/embeddings", {{"input", "w12"}}).status, 400);
  server.end();
}

TEST(ServeSeq2Seq, FollowsTheModelsGenerationConfig) {
  const TextSeq2Seq model;
  std::ofstream(std::filesystem::path(model.path()) / "generation_config.json")
      << R"({"decoder_start_token_id": 0, "max_length": 9, "min_length": 9, "no_repeat_ngram_size": 1})";
  ServedProgram server(1, {"--model", model.path()});
  for (const int beams : {1, 3}) {
    json call = {{"prompt", "w36 w245 w118"}, {"temperature", 0}};
    if (beams > 1) call["beams"] = beams;
    const json answer = server.post("/v1/completions", call).json();
    EXPECT_EQ(answer.at("usage").at("completion_tokens"), 8) << "and the one that the decoder begins with";
    std::istringstream words(answer.at("choices").at(0).at("text").get<std::string>());
    std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << answer;
  }
  server.end();
}

}  // namespace
}  // namespace tp::test
