// Many clients at the same time, some of them hostile.

#include "tests/expect_contains.h"
#include "tests/serve/served_program.h"

#include <atomic>
#include <fstream>
#include <future>
#include <memory>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

namespace tp::test {
namespace {

using nlohmann::json;

json request_of(int number, int tokens) {
  return {{"prompt", "Once upon a time there was number " + std::to_string(number)},
          {"max_tokens", tokens},
          {"temperature", 0.9},
          {"seed", number},
          {"ignore_eos", true}};
}

std::string answer_text(const HttpReply& reply) {
  return reply.status == 200 ? reply.json().at("choices").at(0).at("text").get<std::string>() : reply.body;
}

long resident_bytes(pid_t process) {
  long pages = 0;
  std::ifstream("/proc/" + std::to_string(process) + "/statm").ignore(64, ' ') >> pages;
  return pages * ::getpagesize();
}

// Returns a request whose answer takes long.
json endless() { return {{"prompt", "Once"}, {"max_tokens", 450}, {"ignore_eos", true}, {"stream", true}}; }

class ServeLoad : public testing::TestWithParam<std::size_t> {};

INSTANTIATE_TEST_SUITE_P(, ServeLoad, testing::Values(kNoMpirun, 2), [](const auto& ranks) {
  return ranks.param == kNoMpirun ? std::string("WithoutMpirun") : std::to_string(ranks.param) + "Ranks";
});

TEST_P(ServeLoad, GivesTheSameTextsUnderLoad) {
  constexpr int kRequests = 64;
  ServedProgram server(GetParam(), {"--same-bits", "--quiet"});
  std::vector<std::string> alone;
  for (int i = 0; i < kRequests; ++i)
    alone.push_back(answer_text(server.post("/v1/completions", request_of(i, 12))));
  std::vector<std::future<std::string>> together;
  for (int i = 0; i < kRequests; ++i) {
    together.push_back(std::async(std::launch::async, [&server, i] {
      return answer_text(server.post("/v1/completions", request_of(i, 12)));
    }));
  }
  for (std::size_t i = 0; i < kRequests; ++i) EXPECT_EQ(together[i].get(), alone[i]) << i;
  server.end();
}

TEST_P(ServeLoad, StopsWorkingForClientsThatHaveLeft) {
  ServedProgram server(GetParam(), {"--quiet", "--max-sequences", "2"});
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server.port()));
    json body = endless();
    body["stream"] = i % 2 == 0;  // clients that wait for the whole answer also leave
    clients.back()->send(request_text("POST", "/v1/completions", body.dump()));
  }
  clients.front()->read_until("data: ");
  const double before = server.metric("generation_tokens_total");
  clients.clear();
  EXPECT_TRUE(server.is_idle());
  EXPECT_LT(server.metric("generation_tokens_total") - before, 5 * 450)
      << "the answers were computed all the same";
  EXPECT_EQ(server.status().at("cache").at("used_tokens"), 0);
  EXPECT_EQ(answer_text(server.post("/v1/completions", request_of(1, 3))).empty(), false);
  server.end();
}

TEST(Serve, RunsFullBatchesRegardlessOfTheQueuesLimit) {
  ServedProgram server(kNoMpirun, {"--quiet", "--max-sequences", "64", "--max-queue", "1"});
  std::vector<std::future<HttpReply>> replies;
  for (int i = 0; i < 8; ++i) {
    replies.push_back(
        std::async(std::launch::async, [&] { return server.post("/v1/completions", request_of(1, 3)); }));
  }
  for (auto& reply : replies) EXPECT_EQ(reply.get().status, 200);
  const json many(66, json::array({7}));
  const HttpReply refused = server.post("/v1/completions", {{"prompt", many}, {"max_tokens", 1}});
  EXPECT_EQ(refused.status, 400) << "it would never be accepted";
  EXPECT_CONTAINS(refused.body, "`prompt`: expected at most 65");
  server.end();
}

TEST(Serve, TurnsRequestsAwayThatCannotWait) {
  ServedProgram server(kNoMpirun, {"--quiet", "--max-sequences", "1", "--max-queue", "1"});
  HttpClient running(server.port());
  running.send(request_text("POST", "/v1/completions", endless().dump()));
  running.read_until("data: ");
  HttpClient waiting(server.port());
  waiting.send(request_text("POST", "/v1/completions", endless().dump()));
  while (server.status().at("requests").at("waiting") != 1) std::this_thread::yield();
  const HttpReply refused = server.post("/v1/completions", endless());
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_GE(std::stoi(refused.headers.at("retry-after")), 1);
  EXPECT_EQ(refused.json().at("error").at("type"), "rate_limit_error");
  running.close();
  waiting.close();
  EXPECT_TRUE(server.is_idle());
  server.end();
}

TEST(Serve, ServesClientsDespiteMisbehavingOnes) {
  ServedProgram server(kNoMpirun, {"--quiet"});
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 300; ++i) clients.push_back(std::make_unique<HttpClient>(server.port()));
  for (int i = 0; i < 100; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server.port()));
    clients.back()->send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n");
  }
  for (int i = 0; i < 32; ++i) {  // clients that never read
    clients.push_back(std::make_unique<HttpClient>(server.port(), 4096));
    clients.back()->send(request_text("POST", "/v1/completions", endless().dump()));
  }
  const HttpReply reply = server.post("/v1/completions", request_of(1, 5));
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(server.get("/health").status, 200);
  clients.clear();
  EXPECT_TRUE(server.is_idle());
  server.end();
}

TEST(Serve, AnswersItsHealthDuringALongPrompt) {
  ServedProgram server(kNoMpirun, {"--quiet"});
  std::vector<int> prompt(500, 7);
  const auto answer = std::async(std::launch::async, [&] {
    return server.post("/v1/completions",
                       {{"prompt", json::array({prompt, prompt, prompt, prompt})}, {"max_tokens", 1}});
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(server.get("/health").status, 200);
  answer.wait();
  server.end();
}

// Sends random requests, and half of the clients leave early. Afterwards nothing is left in use.
// bench/serve/soak.py does this for longer, with other requests.
TEST_P(ServeLoad, FreesEverythingAfterRandomRequests) {
  constexpr int kRequests = 200;
  ServedProgram server(GetParam(),
                       {"--quiet", "--max-sequences", "8", "--cache-tokens", "2048", "--max-queue", "20"});
  const pid_t rank_0 = GetParam() == kNoMpirun ? server.process().pid() : server.process().rank(0);
  std::atomic<int> next = 0;
  std::atomic<int> answered = 0;
  std::atomic<long> early_memory = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(static_cast<unsigned>(thread));
      for (int number = next++; number < kRequests; number = next++) {
        json body = {{"prompt", std::vector<int>(1 + random() % 200, static_cast<int>(3 + random() % 900))},
                     {"max_tokens", 1 + random() % 40},
                     {"n", 1 + random() % 2},
                     {"stream", random() % 2 == 0},
                     {"priority", static_cast<int>(random() % 3)}};
        if (number == kRequests / 4) early_memory = resident_bytes(rank_0);
        HttpClient client(server.port());
        client.send(request_text("POST", "/v1/completions", body.dump()));
        if (random() % 2 == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(random() % 30));
          random() % 2 == 0 ? client.close() : client.reset();
        } else {
          const HttpReply reply = client.read();
          EXPECT_TRUE(reply.status == 200 || reply.status == 429) << reply.status << reply.body;
          EXPECT_TRUE(reply.is_complete);
          ++answered;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(server.is_idle());
  EXPECT_GT(answered, 0);
  EXPECT_EQ(server.metric("kv_cache_blocks_used"), 0);
  if (!TP_SANITIZED) {  // sanitizers do not release freed memory
    EXPECT_LT(resident_bytes(rank_0) - early_memory, 32 << 20);
  }
  server.end();
}

}  // namespace
}  // namespace tp::test
