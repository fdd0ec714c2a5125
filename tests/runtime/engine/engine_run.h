// An engine on all ranks of a test. Rank 0 works with it, and the others follow.
#pragma once

#include "parallel/machine/file_text.h"
#include "tests/model/weights/checkpoint_files.h"
#include "tests/reference/fixture.h"
#include "tp/engine.h"

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tp::test {

// Opens an engine and lets rank 0 do `work` with it. Returns the other ranks' follow() result (0 on rank 0).
// Collective. If `work` fails, all ranks' engines end.
inline int run_engine(Communicator& comm, EngineOptions options, const std::function<void(Engine&)>& work,
                      const EngineHooks& hooks = {}) {
  options.threads = 1;  // tests share few processors
  Engine engine(comm, options, hooks);
  if (!comm.is_root()) return engine.follow();
  work(engine);
  return 0;
}

struct Continuation {
  std::vector<TokenId> tokens;
  std::string text;
  std::vector<float> logprobs;
  std::vector<std::vector<TokenLogprob>> top_logprobs;
  FinishReason reason = FinishReason::none;
  std::variant<std::monostate, TokenId, std::string> matched_stop;
  std::size_t cached_tokens = 0;
  std::string error;
};

// By request and sample.
using Continuations = std::map<std::pair<std::uint64_t, int>, Continuation>;

inline void collect(const TokenEvent& event, Continuations& all) {
  Continuation& one = all[{event.request, event.sample}];
  EXPECT_EQ(one.reason, FinishReason::none) << "an event after the end";
  one.text += event.text;
  one.reason = event.finish_reason;
  one.matched_stop = event.matched_stop;
  one.error = event.error;
  one.cached_tokens = event.cached_tokens;
  if (!event.error.empty()) return;
  one.tokens.push_back(event.token);
  if (event.logprob.has_value()) {
    EXPECT_EQ(event.logprob->id, event.token);
    one.logprobs.push_back(event.logprob->logprob);
    one.top_logprobs.push_back(event.top_logprobs);
  }
}

// Runs steps until all work is done.
inline Continuations run_all(Engine& engine) {
  Continuations all;
  while (engine.has_work()) {
    for (const TokenEvent& event : engine.step()) collect(event, all);
  }
  return all;
}

inline Request greedy_request(std::vector<TokenId> prompt, int max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.0F;
  request.ignore_eos = true;
  return request;
}

// Runs the requests together.
inline Continuations answers_to(Engine& engine, const std::vector<Request>& requests) {
  for (const Request& request : requests) engine.submit(request);
  return run_all(engine);
}

// Runs one request by itself.
inline Continuation run_alone(Engine& engine, const Request& request) {
  const std::uint64_t id = engine.submit(request);
  return run_all(engine)[{id, 0}];
}

// Returns the state that the request asks for.
inline std::vector<float> pooled_of(Engine& engine, Request request) {
  std::vector<float> pooled;
  engine.run(std::move(request), [&](const Event& event) {
    if (const auto* state = std::get_if<PooledHidden>(&event)) pooled = state->state;
  });
  return pooled;
}

// Returns a sink that appends rows of hidden states to `all`.
inline EventSink hidden_into(std::vector<float>& all) {
  return [&all](const Event& event) {
    if (const auto* rows = std::get_if<PromptHidden>(&event))
      all.insert(all.end(), rows->states.begin(), rows->states.end());
  };
}

// Returns the hidden states of the request's prompt, [prompt, hidden_size].
inline std::vector<float> hidden_of(Engine& engine, Request request) {
  request.prompt_hidden = true;
  std::vector<float> all;
  engine.run(std::move(request), hidden_into(all));
  return all;
}

// Returns the logits at each position, [tokens, vocab_size].
inline std::vector<float> all_logits(Engine& engine, std::span<const TokenId> tokens) {
  std::vector<float> all;
  engine.logits(tokens, [&](std::size_t, std::span<const float> row) {
    all.insert(all.end(), row.begin(), row.end());
  });
  return all;
}

// The tokens of every request's samples.
using Texts = std::vector<std::vector<std::vector<TokenId>>>;

// Runs the requests together or one by one and returns their texts.
inline Texts texts_of(Engine& engine, const std::vector<Request>& requests, bool one_by_one) {
  std::vector<RequestId> ids;
  Continuations all;
  for (const Request& request : requests) {
    ids.push_back(engine.submit(request));
    if (one_by_one) all.merge(run_all(engine));
  }
  all.merge(run_all(engine));
  Texts texts;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    texts.emplace_back();
    for (int sample = 0; sample < requests[i].n; ++sample)
      texts.back().push_back(all[{ids[i], sample}].tokens);
  }
  return texts;
}

// Returns `size` of a fixture's tokens. Prompts with the same `first` differ only in their ends.
inline std::vector<TokenId> varied_prompt(const std::vector<TokenId>& all, std::size_t size,
                                          std::size_t first) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < size; ++i)
    tokens.push_back(all[(first + i * (1 + i / all.size())) % all.size()]);
  return tokens;
}

// A fixture's model in its own folder, with a tokenizer whose tokens are two letters: "aa", "ab", ... Only
// rank 0 has the folder. The engine tells the other ranks its path.
class ModelFolder {
 public:
  explicit ModelFolder(const reference::Fixture& fixture) {
    for (const auto& entry : std::filesystem::directory_iterator(fixture.folder))
      std::filesystem::copy(entry.path(), path() / entry.path().filename());
    nlohmann::json vocabulary;
    for (TokenId id = 0; id < 26 * 26; ++id) vocabulary[decoded({id})] = id;
    const nlohmann::json tokenizer = {
        {"version", "1.0"},
        {"added_tokens", nlohmann::json::array()},
        {"normalizer", nullptr},
        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
        {"post_processor", nullptr},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
    write("tokenizer.json", tokenizer.dump());
    count_folded_tokens(vocabulary.size());
  }

  const std::filesystem::path& path() const { return directory_.path(); }
  void write(const std::string& name, const std::string& content) const { directory_.write(name, content); }

  static std::string decoded(const std::vector<TokenId>& tokens) {
    std::string text;
    for (const TokenId id : tokens) {
      text.push_back(static_cast<char>('a' + id / 26));
      text.push_back(static_cast<char>('a' + id % 26));
    }
    return text;
  }

 private:
  // Hash tables by folded ids must have as many as the tokenizer.
  void count_folded_tokens(std::size_t count) const {
    const std::string config = file_text(path() / "config.json");
    const std::string key = "\"engram_compressed_vocab_size\": ";
    const std::size_t place = config.find(key);
    if (place == config.npos) return;
    const std::size_t number = place + key.size();
    write("config.json", config.substr(0, number) + std::to_string(count) +
                             config.substr(config.find_first_not_of("0123456789", number)));
  }

  TemporaryDirectory directory_;
};

}  // namespace tp::test
