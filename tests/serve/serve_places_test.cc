// Echoed texts and the offsets of their tokens.
#include "tests/serve/one_server.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

TEST_F(ServeApiAlone, GeneratesNothingIfNoTokenIsAskedFor) {
  for (const char* prompt : {"Once upon a time", "Once"}) {
    for (const json& logprobs : {json(), json(1)}) {
      const json body = {{"prompt", prompt}, {"max_tokens", 0}, {"echo", true}, {"logprobs", logprobs}};
      const HttpReply reply = server().post("/v1/completions", body);
      ASSERT_EQ(reply.status, 200) << body << reply.body;
      const json choice = reply.json().at("choices").at(0);
      EXPECT_EQ(choice.at("text"), prompt);
      EXPECT_EQ(choice.at("finish_reason"), "length");
      EXPECT_EQ(choice.at("logprobs").is_null(), logprobs.is_null()) << body;
      EXPECT_EQ(reply.json().at("usage").at("completion_tokens"), 0);
      json streamed = body;
      streamed.update({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
      const HttpReply stream = server().post("/v1/completions", streamed);
      EXPECT_EQ(streamed_text(stream), prompt) << stream.body;
      EXPECT_EQ(stream.chunks().front().at("choices").at(0).at("logprobs"), choice.at("logprobs"));
      EXPECT_EQ(stream.chunks().back().at("usage").at("prompt_tokens"),
                reply.json().at("usage").at("prompt_tokens"));
      EXPECT_EQ(stream.events().back(), "[DONE]");
    }
  }
  EXPECT_EQ(server().post("/v1/completions", greedy(0)).json().at("choices").at(0).at("text"), "");
  const json messages = {{"max_tokens", 0}, {"stream", true}, {"messages", {user_says("Hi")}}};
  EXPECT_EQ(server().post("/v1/messages", messages).chunks().front().at("type"), "message_start");
}

// The demo model's vocabulary is too small to contain U+1F600.
TEST_F(ServeApiAlone, CharactersInSeveralTokensHaveTheirBytesAndOnePlace) {
  const std::string face = "\xF0\x9F\x98\x80";
  const json pieces =
      server().post("/tokenize", {{"content", face}, {"with_pieces", true}}).json().at("tokens");
  std::string joined;
  for (const json& token : pieces) {
    for (const json& byte : token.at("piece")) joined += static_cast<char>(byte.get<int>());
  }
  EXPECT_GT(pieces.size(), 1U);
  EXPECT_EQ(joined, face) << pieces;

  const json body = {{"prompt", "Once"},
                     {"max_tokens", 20},
                     {"logprobs", 2},
                     {"temperature", 0},
                     {"structured_outputs", {{"regex", "a" + face + "b"}}}};
  const json lists = server().post("/v1/completions", body).json().at("choices").at(0).at("logprobs");
  ASSERT_GE(lists.at("text_offset").size(), 4U) << lists;
  EXPECT_EQ(lists.at("tokens").at(0), "a");
  EXPECT_EQ(lists.at("text_offset").at(0), 0);
  const std::size_t end = lists.at("tokens").size() - 1;  // index of the end token
  for (std::size_t i = 1; i + 1 < end; ++i) EXPECT_EQ(lists.at("text_offset").at(i), 1) << lists;
  EXPECT_EQ(lists.at("text_offset").at(end - 1), 2) << lists;
  EXPECT_EQ(lists.at("text_offset").at(end), 3) << lists;
  json streamed = body;
  streamed["stream"] = true;
  json offsets = json::array();
  for (const json& chunk : server().post("/v1/completions", streamed).chunks()) {
    const json own = chunk.at("choices").at(0).at("logprobs");
    if (own.is_object())
      offsets.insert(offsets.end(), own.at("text_offset").begin(), own.at("text_offset").end());
  }
  EXPECT_EQ(offsets, lists.at("text_offset"));

  json echoed = {{"prompt", face + "b"}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 0}};
  const json places =
      server().post("/v1/completions", echoed).json().at("choices").at(0).at("logprobs").at("text_offset");
  EXPECT_EQ(places.back(), 1) << places;

  const json messages = {
      {"messages", {user_says("Hi")}}, {"logprobs", true}, {"structured_outputs", {{"regex", "a" + face}}}};
  std::string bytes;
  const json chat = server().post("/v1/chat/completions", messages).json();
  for (const json& token : chat.at("choices").at(0).at("logprobs").at("content")) {
    for (const json& byte : token.at("bytes")) bytes += static_cast<char>(byte.get<int>());
  }
  EXPECT_EQ(bytes, "a" + face) << chat;
}

// lm-evaluation-harness sums all entries except the last one, so a missing entry would lose a token of the
// text.
TEST_F(ServeApiAlone, EveryGeneratedTokenHasAnEntryEvenTheEndToken) {
  const json ends = {{"prompt", {"Once", "Once upon"}},
                     {"n", 2},
                     {"max_tokens", 20},
                     {"logprobs", 3},
                     {"structured_outputs", {{"regex", "ab"}}}};
  const std::vector<std::string> names = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
  for (const bool echo : {false, true}) {
    json body = ends;
    body["echo"] = echo;
    const json whole = server().post("/v1/completions", body).json();
    std::size_t entries = 0;
    std::vector<json> lists;
    for (const json& choice : whole.at("choices")) {
      ASSERT_EQ(choice.at("finish_reason"), "stop") << whole;
      const json& logprobs = lists.emplace_back(choice.at("logprobs"));
      for (const std::string& name : names) EXPECT_EQ(logprobs.at(name).size(), logprobs.at("tokens").size());
      entries += logprobs.at("tokens").size();
      const std::string end = logprobs.at("tokens").back();
      EXPECT_FALSE(end.empty());
      EXPECT_EQ(logprobs.at("text_offset").back(), choice.at("text").get<std::string>().size());
    }
    const json& usage = whole.at("usage");
    const std::size_t prompts = usage.at("prompt_tokens");
    EXPECT_EQ(entries, usage.at("completion_tokens").get<std::size_t>() + (echo ? 2 * prompts : 0)) << whole;

    body["stream"] = true;
    std::vector<json> streamed(lists.size());
    for (json& own : streamed) {
      for (const std::string& name : names) own[name] = json::array();
    }
    for (const json& chunk : server().post("/v1/completions", body).chunks()) {
      for (const json& choice : chunk.at("choices")) {
        if (!choice.at("logprobs").is_object()) continue;
        json& own = streamed.at(choice.at("index"));
        for (const std::string& name : names)
          own[name].insert(own[name].end(), choice.at("logprobs").at(name).begin(),
                           choice.at("logprobs").at(name).end());
      }
    }
    for (std::size_t i = 0; i < lists.size(); ++i) EXPECT_EQ(streamed[i].at("tokens"), lists[i].at("tokens"));
  }
}

// A possible stop text delays a token's text, but does not change its offset.
TEST_F(ServeApiAlone, PlacesOfTokensDoNotDependOnStopTexts) {
  const json plain = greedy(8, {{"logprobs", 0}});
  const auto offsets = [&](const json& body) {
    json all = json::array();
    for (const json& chunk : server().post("/v1/completions", body).chunks()) {
      const json own = chunk.at("choices").at(0).at("logprobs");
      if (own.is_object()) all.insert(all.end(), own.at("text_offset").begin(), own.at("text_offset").end());
    }
    return all;
  };
  json stops = plain;
  const json whole = server().post("/v1/completions", plain).json().at("choices").at(0);
  stops.update({{"stream", true}, {"stop", {whole.at("text").get<std::string>() + "and more"}}});
  EXPECT_EQ(offsets(stops), whole.at("logprobs").at("text_offset"));
}

}  // namespace
}  // namespace tp::test
