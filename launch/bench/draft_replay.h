// Real texts whose draft tokens are tried on a model that generates different texts: `bench
// --acceptance-trace`.
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

// A recorded text. It may use a different vocabulary than the model that replays it.
struct RealText {
  std::string name;
  std::vector<TokenId> prompt;
  std::vector<TokenId> tokens;
  Request request{};  // sampling of the text, for draft models
};

// Reads lines {"name": "edit", "prompt_ids": [...], "token_ids": [...]}, optionally with the `sampling` that
// `generate --json` writes. Without `sampling`, the text is greedy. Throws RequestError with the file and the
// line if a line is invalid or the file has none.
std::vector<RealText> read_real_texts(const std::filesystem::path& file);

// Maps the model's texts to real texts of the same lengths.
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
  ReplaySource(std::shared_ptr<const ReplayedTexts> texts, std::unique_ptr<DraftSource> source,
               std::size_t vocab_size);

  std::vector<Draft> draft(std::span<const DraftQuery> queries) override;
  void learn_from(const DraftQuery& text) override;
  void end(std::uint64_t sequence) override;

 private:
  static DraftQuery real_query(const DraftQuery& query, const ReplayedTexts::Pair& pair);
  const ReplayedTexts::Pair* follow(const DraftQuery& query);

  std::shared_ptr<const ReplayedTexts> texts_;
  std::unique_ptr<DraftSource> source_;
  std::size_t vocab_size_;
  std::unordered_map<std::uint64_t, const ReplayedTexts::Pair*> sequences_;
};

}  // namespace tp
