// Real texts whose draft tokens are tried on a model that generates others: `bench --acceptance-trace`.
#pragma once

#include "tp/draft_source.h"
#include "tp/token_id.h"

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tp {

// A text as some model wrote it; its vocabulary may be another one than that of the model that replays it.
struct RealText {
  std::string name;
  std::vector<TokenId> prompt;
  std::vector<TokenId> tokens;
  Request request{};  // how its tokens were drawn, for draft models
};

// Reads lines {"name": "edit", "prompt_ids": [...], "token_ids": [...]}, perhaps with the `sampling` that
// `generate --json` writes; without it a text is the greedy one. Throws RequestError naming the file
// and line that has something else, or if there is none.
std::vector<RealText> read_real_texts(const std::filesystem::path& file);

// Which of a model's texts stands for which real one. Both have the same lengths.
class ReplayedTexts {
 public:
  void add(std::vector<TokenId> prompt, std::vector<TokenId> tokens, const RealText& real);

  struct Pair {
    std::vector<TokenId> real;      // prompt and text
    std::vector<TokenId> replayed;  // prompt and text of the replaying model
    Request request;                // request of the real text
  };
  // Returns the pair whose replayed text begins with this prompt, or null.
  const Pair* find(std::span<const TokenId> prompt) const;

 private:
  std::map<std::vector<TokenId>, Pair> pairs_;  // by the prompt of the replayed text
};

// Drafts the tokens that another source drafts for the real text. A correct draft token becomes the model's
// own token, a wrong one becomes a wrong token. So the acceptance rate is the real text's.
class ReplaySource : public DraftSource {
 public:
  ReplaySource(std::shared_ptr<const ReplayedTexts> texts, std::unique_ptr<DraftSource> guesses,
               std::size_t vocab_size);

  std::vector<Draft> draft(std::span<const DraftQuery> queries) override;
  void learn_from(const DraftQuery& text) override;
  void end(std::uint64_t sequence) override;

 private:
  static DraftQuery real_query(const DraftQuery& query, const ReplayedTexts::Pair& pair);
  const ReplayedTexts::Pair* follow(const DraftQuery& query);

  std::shared_ptr<const ReplayedTexts> texts_;
  std::unique_ptr<DraftSource> guesses_;
  std::size_t vocab_size_;
  std::unordered_map<std::uint64_t, const ReplayedTexts::Pair*> sequences_;
};

}  // namespace tp
