// A server whose ranks are pipeline stages.

#include "tests/serve/one_server.h"

#include <csignal>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

struct Question {
  const char* target;
  json body;
};

// The questions are greedy, so their tokens equal those of one rank unless two tokens are equally likely up
// to the last bits.
std::vector<Question> questions() {
  const json messages = {{{"role", "user"}, {"content", "Tell me a story"}}};
  return {{"/v1/completions", greedy(60, {{"ignore_eos", true}})},
          {"/v1/chat/completions", {{"messages", messages}, {"max_tokens", 60}, {"temperature", 0}}}};
}

std::string answer_text(const HttpReply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  if (reply.status != 200) return reply.body;
  const json choice = reply.json().at("choices").at(0);
  return choice.contains("message") ? choice.at("message").at("content") : choice.at("text");
}

// Asks all questions at the same time.
std::vector<std::string> answers(const ServedProgram& server) {
  std::vector<std::future<std::string>> replies;
  for (const Question& question : questions()) {
    replies.push_back(std::async(std::launch::async, [&server, question] {
      return answer_text(server.post(question.target, question.body));
    }));
  }
  std::vector<std::string> texts;
  for (std::future<std::string>& reply : replies) texts.push_back(reply.get());
  return texts;
}

class ServePipeline : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TemplateFile chat_template;
    ServedProgram server(kNoMpirun, {"--quiet", "--chat-template", chat_template.path()});
    expected_.clear();
    for (const Question& question : questions()) {
      expected_.push_back(answer_text(server.post(question.target, question.body)));
      EXPECT_GT(expected_.back().size(), 50U) << "a short answer proves little";
    }
    server.end();
  }

  std::string pid_file() const { return (folder_.path() / "pid").string(); }

  // Sends SIGTERM to rank 0. mpirun would kill the ranks.
  void end_by_term() {
    pid_t rank_0 = 0;
    std::ifstream(pid_file()) >> rank_0;
    ASSERT_GT(rank_0, 0);
    ::kill(rank_0, SIGTERM);
    const Finished finished = server_.process().finish();
    EXPECT_EQ(finished.status, 0) << finished.err;
  }

  static inline std::vector<std::string> expected_;
  TemplateFile chat_template_;
  TemporaryDirectory folder_;
  ServedProgram server_{
      2, {"--pipeline", "2", "--quiet", "--pid-file", pid_file(), "--chat-template", chat_template_.path()}};
};

TEST_F(ServePipeline, AnswersSeveralRequestsAtOnceAsOneRankDoes) {
  ASSERT_EQ(server_.status().at("ranks").size(), 2U);
  EXPECT_EQ(answers(server_), expected_);
  end_by_term();
}

TEST_F(ServePipeline, StreamsTheSameTexts) {
  std::size_t i = 0;
  for (Question question : questions()) {
    question.body["stream"] = true;
    const HttpReply stream = server_.post(question.target, question.body);
    EXPECT_TRUE(stream.is_complete);
    EXPECT_EQ(stream.events().back(), "[DONE]");
    EXPECT_EQ(streamed_text(stream), expected_[i++]);
  }
  end_by_term();
}

// Begins a stream and waits for its first token.
std::unique_ptr<HttpClient> begin_stream(const ServedProgram& server, const Question& question) {
  json body = question.body;
  body["stream"] = true;
  auto client = std::make_unique<HttpClient>(server.port());
  client->send(request_text("POST", question.target, body.dump()));
  client->read_until("data: ");
  return client;
}

TEST_F(ServePipeline, ServesTheOthersWhenAClientLeaves) {
  const auto leaving = begin_stream(server_, {"/v1/completions", greedy(450, {{"ignore_eos", true}})});
  const std::vector<Question> others = questions();
  std::vector<std::unique_ptr<HttpClient>> staying;
  for (const Question& other : others) staying.push_back(begin_stream(server_, other));
  leaving->reset();
  for (std::size_t i = 0; i < others.size(); ++i)
    EXPECT_EQ(streamed_text(staying[i]->read()), expected_[i]) << others[i].target;
  EXPECT_TRUE(server_.is_idle());
  EXPECT_LT(server_.metric("generation_tokens_total"), 450) << "all of its answer was computed";
  EXPECT_EQ(server_.status().at("cache").at("used_tokens"), 0);
  EXPECT_EQ(answers(server_), expected_) << "afterwards";
  end_by_term();
}

}  // namespace
}  // namespace tp::test
