// Draft tokens of a smaller model.
#pragma once

#include "runtime/cache/block_manager.h"
#include "runtime/cache/cache_shape.h"
#include "runtime/protocol/command.h"
#include "runtime/protocol/outputs.h"
#include "runtime/protocol/step_times.h"
#include "runtime/speculation/calibration.h"
#include "tp/draft_source.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

namespace tp {

// What is to be known of a draft model.
struct DraftModelLimits {
  std::size_t vocab_size = 0;
  std::size_t known_ids = SIZE_MAX;  // of the model that it guesses for
  std::size_t max_length = 0;        // tokens of a sequence
  std::size_t step_tokens = 0;       // of a pass
  std::size_t cache_blocks = 0;
  CacheShape cache;
  // Not a model, but the model's layer that predicts the token after the next one. It has sequences without
  // their first token: at a position it computes the token behind that, and reads the state that the model
  // has left there.
  bool next_token = false;
};

// Plans the draft model's passes, much as the scheduler plans the model's: a first one that computes what is
// new of all sequences, and then, as long as that pays, one for every further token.
//
// A token is drawn with the noise that the model draws with, so that both choose the same one wherever
// they agree well enough. The cache keeps what was computed of a sequence: after a wrong guess it continues
// behind the last right one. A long prompt is computed in several steps, in which the sequence has no draft;
// neither has it beyond the draft model's maximum length, behind tokens that it does not have, or where the
// cache has no room although sequences that are not asked about were forgotten.
//
// What a layer has guessed from its own states it computes again from the model's. Queries for no tokens let
// it follow, as long as these are there; without them its guesses are worse.
class ModelSource : public DraftSource {
 public:
  // Runs a pass on all ranks of the draft model, and returns the results of its outputs.
  using Run = std::function<std::vector<Result>(Forward forward)>;

  ModelSource(const DraftModelLimits& limits, Run run);

  std::vector<Draft> draft(std::span<const DraftQuery> queries) override;
  void end(std::uint64_t sequence) override;

 private:
  struct Text {
    std::size_t seen = 0;       // tokens of its last query,
    std::size_t computed = 0;   // how many of these are in the cache,
    std::size_t committed = 0;  // and how many others may find there,
    Draft guessed{};            // the tokens behind them; all but the last one are in the cache, too,
    std::vector<double> probabilities{};  // and how probable they were
    bool announced = false;               // the ranks have a table for it,
    std::size_t sent_blocks = 0;          // with this many entries
    std::uint64_t last_turn = 0;          // in which it was asked about
    bool has_unknown = false;             // tokens
  };
  struct Member {
    const DraftQuery* query = nullptr;  // with the tokens that the draft model has
    Text* text = nullptr;
    std::size_t most = 0;  // tokens that it may still have

    std::size_t missing() const { return query->tokens.size() - text->computed; }
  };

  std::vector<DraftQuery> own_queries(std::span<const DraftQuery> queries) const;
  Text& follow(const DraftQuery& query, TokenId first_token);
  void learn(Text& text, const DraftQuery& query);
  bool is_behind(const DraftQuery& query) const;
  std::size_t most_of(const DraftQuery& query) const;
  bool reserve(std::uint64_t sequence, std::size_t tokens);
  std::vector<BlockId> take_unsent_blocks(const DraftQuery& query, Text& text) const;
  void add_chunk(Member& member, std::size_t first, std::span<const TokenId> tokens, bool chooses,
                 Forward& forward);
  void catch_up(std::vector<Member>& members);
  void guess_next(std::vector<Member>& members);
  void run(Forward forward, std::span<Member*> choosing);
  bool pays(std::span<const Member> members, double seconds) const;

  DraftModelLimits limits_;
  Run run_;
  BlockManager blocks_;
  std::unordered_map<std::uint64_t, Text> texts_;
  std::vector<SequenceId> ended_;  // that the ranks have not been told of
  std::uint64_t turn_ = 0;
  Calibration calibration_;
  RecentMedian pass_seconds_;  // of passes with one token of each sequence
};

}  // namespace tp
