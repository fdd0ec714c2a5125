// Stored prompts over HTTP and on the command line: texts equal those of computed prompts, even across
// restarts, different numbers of ranks, and killed ranks.
#include "tests/serve/one_server.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace tp::test {
namespace {

using nlohmann::json;

// Returns a prompt of about 200 tokens of the demo model.
std::string long_prompt() {
  std::string text = "Once upon a time there was a girl named Emma.";
  for (int i = 0; i < 12; ++i) text += " She had a white hen, and the hen liked to play in the park.";
  return text;
}

class StoreFolder {
 public:
  Arguments arguments(Arguments more) const {
    more.insert(more.end(), {"--kv-store", path(), "--kv-store-min", "16", "--same-bits"});
    return more;
  }
  std::string path() const { return folder_.path().string(); }
  // Returns the number of files whose names end with `end`.
  std::size_t files(const std::string& end) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        std::filesystem::recursive_directory_iterator(folder_.path()),
        [&](const auto& entry) { return entry.path().filename().string().ends_with(end); }));
  }

 private:
  TemporaryDirectory folder_;
};

json completion_of(const ServedProgram& server, json more = json::object()) {
  more.update({{"prompt", long_prompt()}, {"max_tokens", 24}, {"seed", 3}, {"temperature", 0.8}});
  const HttpReply reply = server.post("/v1/completions", more);
  EXPECT_EQ(reply.status, 200) << reply.body;
  return reply.json();
}

std::string answer_text(const json& completion) { return completion.at("choices").at(0).at("text"); }

std::size_t cached_in(const json& completion) {
  return completion.at("usage").at("prompt_tokens_details").at("cached_tokens");
}

TEST(ServeStore, AnswersAfterARestartAsBeforeOnAnyRanks) {
  const StoreFolder store;
  std::string expected;
  {
    ServedProgram server(2, store.arguments({}));
    const json first = completion_of(server);
    expected = answer_text(first);
    EXPECT_EQ(cached_in(first), 0U);
    EXPECT_FALSE(first.at("timings").contains("kv_store_n"));
    server.end();
  }
  for (const std::size_t ranks : {1U, 2U, 3U}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    ServedProgram server(ranks, store.arguments({}));
    const json again = completion_of(server);
    EXPECT_EQ(answer_text(again), expected);
    EXPECT_GT(cached_in(again), 100U);
    EXPECT_EQ(again.at("timings").at("kv_store_n"), cached_in(again));
    EXPECT_EQ(server.metric("kv_store_hit_tokens_total"), static_cast<double>(cached_in(again)));
    EXPECT_EQ(server.status().at("kv_store").at("tokens"), cached_in(again));
    server.end();
  }
}

TEST(ServeStore, IgnoresPromptsWithoutCaching) {
  const StoreFolder store;
  ServedProgram server(1, store.arguments({}));
  completion_of(server, {{"cache_prompt", false}});
  ASSERT_TRUE(server.is_idle());
  EXPECT_EQ(server.status().at("kv_store").at("written_bytes"), 0);
  server.end();
}

// DELETE removes the files, rank 0's index and the counts of queued files. A later prompt is stored again.
TEST(ServeStore, IsClearedByAnOperatorWithAKey) {
  const StoreFolder store;
  ServedProgram server(2, store.arguments({"--api-key", "secret"}));
  const Headers key = {{"Authorization", "Bearer secret"}};
  const auto ask = [&](const char* salt) {
    const json body = {{"prompt", long_prompt()}, {"max_tokens", 4}, {"cache_salt", salt}};
    return server.post("/v1/completions", body, key).json();
  };
  const auto clear = [&](const Headers& headers) {
    HttpClient client(server.port());
    client.send(request_text("DELETE", "/v1/kv-store", "", headers));
    return client.read();
  };
  const auto wait_for_files = [&](bool some) {
    for (int i = 0; i < 500 && (store.files("-k0h0") > 0) != some; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return (store.files("-k0h0") > 0) == some;
  };
  ask("one");
  ASSERT_TRUE(wait_for_files(true));
  EXPECT_EQ(clear({}).status, 401);
  EXPECT_EQ(server.get("/v1/kv-store", key).status, 405);
  EXPECT_GT(store.files("-k0h0"), 0U);
  const HttpReply reply = clear(key);
  EXPECT_EQ(reply.status, 202) << reply.body;
  EXPECT_TRUE(wait_for_files(false));
  ask("two");
  EXPECT_TRUE(wait_for_files(true));
  server.end();
}

TEST(ServeStore, IsNotClearedWithoutKeysOrWithoutAStore) {
  for (const bool has_key : {false, true}) {
    const StoreFolder store;
    ServedProgram server(kNoMpirun, has_key ? Arguments{"--api-key", "secret"} : store.arguments({}));
    HttpClient client(server.port());
    client.send(request_text("DELETE", "/v1/kv-store", "", {{"x-api-key", "secret"}}));
    const HttpReply reply = client.read();
    EXPECT_EQ(reply.status, has_key ? 404 : 403) << reply.body;
    EXPECT_CONTAINS(reply.body, has_key ? "--kv-store DIR" : "--api-key");
    server.end();
  }
}

Arguments generate(const StoreFolder& store) {
  return store.arguments({"generate", "--prompt", long_prompt(), "--max-tokens", "24", "--seed", "3"});
}

TEST(GenerateStore, WritesTheSameTextOnAnyRanks) {
  const StoreFolder store;
  const StoreFolder other;
  const std::string expected = run(1, generate(other)).out;
  for (const std::size_t ranks : {2U, 1U, 3U}) {
    const Finished finished = run(ranks, generate(store));
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(finished.out, expected);
  }
}

// TP_STORE_KILLS sets the number of kills. 20 kills take half a minute.
TEST(GenerateStore, SurvivesRanksThatAreKilledWhileTheyWrite) {
  const char* const wanted = std::getenv("TP_STORE_KILLS");
  const int kills = wanted == nullptr ? 6 : std::atoi(wanted);
  const StoreFolder store;
  const StoreFolder other;
  const std::string expected = run(1, generate(other)).out;
  std::mt19937 random(5);
  for (int i = 0; i < kills; ++i) {
    Process process(command_line(2, generate(store)));
    const std::size_t before = store.files("h0");
    for (int wait = 0; wait < 20'000 && store.files("h0") == before && store.files(".tmp") == 0 && i % 2 == 0;
         ++wait)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (i % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300 + random() % 500));
    const pid_t victim = process.rank(static_cast<int>(random() % 2));
    if (victim != -1) ::kill(victim, SIGKILL);
    process.finish();
  }
  // The test backdates the temporary files, so their writers seem to have ended long ago.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(store.path())) {
    const timespec times[2] = {{1000, 0}, {1000, 0}};
    if (entry.path().extension() == ".tmp") ::utimensat(AT_FDCWD, entry.path().c_str(), times, 0);
  }
  for (const std::size_t ranks : {2U, 1U}) {
    const Finished finished = run(ranks, generate(store));
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(finished.out, expected);
    EXPECT_EQ(finished.err, "") << "nothing is damaged";
  }
  EXPECT_EQ(store.files(".tmp"), 0U);
}

}  // namespace
}  // namespace tp::test
