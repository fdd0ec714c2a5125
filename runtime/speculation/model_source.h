// Draft tokens from a smaller model.
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

// The properties of a draft model.
struct DraftModelLimits {
  std::size_t vocab_size = 0;
  std::size_t known_ids = SIZE_MAX;  // number of the target's token ids
  std::size_t max_length = 0;        // most tokens of a sequence
  std::size_t step_tokens = 0;       // most tokens of a pass
  std::size_t cache_blocks = 0;
  CacheShape cache;
  // Whether this is not a model but the target's multi-token prediction layer, or an EAGLE-3 drafter. Its
  // sequences lack their first token: at each position, it reads the target's state and the target's next
  // token.
  bool reads_states = false;
  // A drafter of blocks (DFlash): a pass caches the states of the target at all tokens but the last one, and
  // another pass drafts from a block of the last token and mask tokens.
  struct Block {
    std::size_t size = 0;  // 0: this is not a drafter of blocks
    TokenId mask_token = 0;
    bool samples_from_anchor = false;  // the last token's row drafts a token, too
  };
  Block block{};

  // Whether the target's state at a position of a sequence is there to be read. Sequences do not share what
  // was computed after a missing state. Empty: they share everything.
  std::function<bool(SequenceId sequence, std::size_t position)> has_state{};

  bool drafts_blocks() const { return block.size != 0; }
  // Whether it follows a text while the target's states exist.
  bool follows() const { return reads_states || drafts_blocks(); }
};

// Plans the draft model's passes, like the scheduler plans the model's. The first pass computes the new
// tokens of all sequences. Each further pass drafts one token per sequence, as long as that pays.
//
// A token is drawn with the target's noise, so that both models choose the same token if their distributions
// are similar enough. The cache keeps a sequence's computed tokens: after a wrong draft token, computation
// continues after the last accepted token. A long prompt is computed in several steps, without drafts
// meanwhile. A sequence also has no draft after the draft model's maximum length, after tokens that the draft
// model lacks, or if the cache stays full although sequences without a query were forgotten.
//
// A multi-token prediction layer or drafter drafts from its own states, and later computes these tokens again
// from the target's states. Queries for 0 tokens let it follow a text while the target's states exist.
// Otherwise its drafts are worse.
class ModelSource : public DraftSource {
 public:
  // Runs a pass on all ranks of the draft model, and returns the results of its outputs.
  using Run = std::function<std::vector<Result>(Forward forward)>;

  ModelSource(const DraftModelLimits& limits, Run run);

  std::vector<Draft> draft(std::span<const DraftQuery> queries) override;
  void end(std::uint64_t sequence) override;

 private:
  struct Text {
    std::size_t seen = 0;       // tokens of the last query
    std::size_t computed = 0;   // number of these tokens in the cache
    std::size_t committed = 0;  // number of tokens that other sequences may share
    std::size_t complete = 0;   // number of tokens before the first missing state
    Draft draft{};              // draft after the seen tokens; the cache contains all but its last token
    std::vector<double> probabilities{};  // [draft.tokens], from the draft model
    bool announced = false;               // the ranks have block tables for the sequence
    std::size_t sent_blocks = 0;          // entries of these tables
    std::uint64_t last_turn = 0;          // turn of the last query
    bool has_unknown = false;             // contains tokens that the draft model lacks
  };
  struct Member {
    const DraftQuery* query = nullptr;  // contains only the tokens that the draft model has
    Text* text = nullptr;
    std::size_t max = 0;     // number of tokens that may still be drafted
    std::size_t needed = 0;  // number of tokens that the cache must have before drafts

    std::size_t missing() const { return needed - text->computed; }
  };

  std::vector<DraftQuery> own_queries(std::span<const DraftQuery> queries) const;
  Text& follow(const DraftQuery& query, TokenId first_token);
  void learn(Text& text, const DraftQuery& query);
  bool is_behind(const DraftQuery& query) const;
  bool is_early(const DraftQuery& query) const;
  std::size_t max_drafts(const DraftQuery& query) const;
  // The tokens that the cache must have before drafts. A block begins with the last token.
  std::size_t needed_by(const DraftQuery& query) const {
    return query.tokens.size() - (limits_.drafts_blocks() ? 1 : 0);
  }
  bool reserve(std::uint64_t sequence, std::size_t tokens);
  std::vector<BlockId> take_unsent_blocks(const DraftQuery& query, Text& text) const;
  void add_chunk(Member& member, std::size_t first, std::span<const TokenId> tokens, bool chooses,
                 Forward& forward);
  void catch_up(std::vector<Member>& members);
  void note_states(Member& member, std::size_t first, std::size_t count) const;
  void draft_next(std::vector<Member>& members);
  void draft_block(std::vector<Member>& members);
  void run(Forward forward, std::span<Member*> choosing);
  bool pays(std::span<const Member> members, double seconds) const;
  bool block_pays(std::span<const Member> members, double seconds) const;

  DraftModelLimits limits_;
  Run run_;
  BlockManager blocks_;
  std::unordered_map<std::uint64_t, Text> texts_;
  std::vector<SequenceId> ended_;  // ended sequences that the ranks have not dropped yet
  std::uint64_t turn_ = 0;
  Calibration calibration_;
  RecentMedian pass_seconds_;  // times of passes with one token per sequence
};

}  // namespace tp
