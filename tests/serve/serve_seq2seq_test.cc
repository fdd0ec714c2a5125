// The server with an encoder-decoder.
#include "tests/launch/text_seq2seq.h"
#include "tests/serve/served_program.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

TEST(ServeSeq2Seq, CompletesWhatTheEncoderReadsWithAndWithoutBeams) {
  const TextSeq2Seq model;
  ServedProgram server(2, {"--model", model.path()});
  const std::vector<TokenId> ids = {36, 245, 118, 196, 72, 103, 202};
  json call = {{"prompt", TextSeq2Seq::text_of(ids)}, {"max_tokens", 8}, {"temperature", 0}};
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

}  // namespace
}  // namespace tp::test
