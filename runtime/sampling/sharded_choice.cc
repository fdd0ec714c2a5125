#include "runtime/sampling/sharded_choice.h"

#include "parallel/exchange/collectives.h"
#include "runtime/sampling/max_logit.h"
#include "runtime/sampling/sampler.h"
#include "runtime/sampling/vocab_cut.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

enum class Way : std::uint8_t {
  greedy,  // every rank contributes its most likely token
  top_k,   // every rank contributes its k most likely tokens
  draw,    // every rank contributes the winner of its own draw
};

Way way_of(const SamplingParams& params) {
  if (params.greedy()) return Way::greedy;
  const auto top_k = static_cast<std::size_t>(params.top_k);
  return top_k >= 1 && top_k <= kMaxGatheredTopK ? Way::top_k : Way::draw;
}

// This rank's part of a row.
struct LocalRow {
  const ChoiceRow* row = nullptr;
  TokenId first_id = 0;
  std::span<const float> logits{};  // after LogitOps
  ShardRow part{};

  const SamplingParams& params() const { return *row->params; }
  ShardToken token(Candidate candidate) const {
    return {candidate.id, candidate.logit, row->logits[static_cast<std::size_t>(candidate.id - first_id)]};
  }
};

// Uses the logits before LogitOps, because log-probabilities refer to them.
void describe(LocalRow& local) {
  ShardRow& part = local.part;
  const std::span<const float> raw = local.row->logits;
  part.usable = all_usable(raw);
  if (!part.usable) return;
  const int logprobs = local.params().logprobs;
  const std::optional<float> max = local.row->row_max;
  if (logprobs >= 0) part.sums = max ? exact_exp_sums(raw, *max) : exp_sums(raw);
  if (logprobs > 0) part.best = best_candidates(raw, local.first_id, static_cast<std::size_t>(logprobs));
}

void apply_ops(LocalRow& local, std::vector<float>& changed) {
  local.logits = local.row->logits;
  if (!local.part.usable || !local.row->ops.any()) return;
  changed.assign(local.logits.begin(), local.logits.end());
  apply(local.row->ops, local.first_id, changed);
  local.logits = changed;
}

void contribute_best(LocalRow& local) {
  if (!local.part.usable) return;
  const auto count =
      way_of(local.params()) == Way::greedy ? std::size_t{1} : static_cast<std::size_t>(local.params().top_k);
  for (const Candidate best : best_candidates(local.logits, local.first_id, count))
    local.part.tokens.push_back(local.token(best));
}

void draw_among(LocalRow& local, const VocabPart& part, float max) {
  const SamplingParams& params = local.params();
  const float inverse = inverse_temperature(params.temperature);
  const MinP min_p(params.min_p, max, inverse);
  GumbelDraw draw(local.row->key, max, inverse);
  for (std::size_t i = 0; i < part.logits.size(); ++i) {
    const Candidate token = part.token(i);
    if (part.counts(token) && min_p.keeps(token)) draw.consider(token);
  }
  local.part.score = draw.score();
  if (draw.score() > -std::numeric_limits<double>::infinity())
    local.part.tokens = {local.token(draw.winner())};
}

// Finds the last token that top_k and top_p keep, in every row.
void cut(Communicator& comm, std::span<const LocalRow* const> rows, std::span<VocabPart> parts) {
  std::vector<Cut> by_count;
  std::vector<Cut> by_share;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SamplingParams& params = rows[i]->params();
    if (params.top_k > 0) by_count.push_back({&parts[i], static_cast<std::size_t>(params.top_k)});
    if (params.top_p < 1.0F) by_share.push_back({&parts[i], 0, params.top_p});
  }
  cut_vocabulary(comm, by_count);
  cut_vocabulary(comm, by_share);  // applies to the tokens that top_k kept
}

// Draws, on every rank, among the rank's own tokens of each row.
void draw(Communicator& comm, std::vector<LocalRow*> rows) {
  if (rows.empty()) return;
  std::vector<float> max;
  // Infinity tells every rank that the row is not usable.
  for (const LocalRow* row : rows) max.push_back(row->part.usable ? max_logit(row->logits) : kInfinity);
  exchange_max(comm, max);
  std::vector<LocalRow*> possible;
  std::vector<float> max_of_possible;
  std::vector<VocabPart> parts;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (max[i] == kInfinity || max[i] == -kInfinity) continue;
    possible.push_back(rows[i]);
    max_of_possible.push_back(max[i]);
    const float inverse = inverse_temperature(rows[i]->params().temperature);
    parts.push_back({rows[i]->logits, rows[i]->first_id, NucleusScale(max[i], inverse)});
  }
  cut(comm, possible, parts);
  if (possible.empty()) return;
  for_thread_parts(possible.size(), possible.size() * possible.front()->logits.size(),
                   [&](std::size_t begin, std::size_t end) {
                     for (std::size_t i = begin; i < end; ++i)
                       draw_among(*possible[i], parts[i], max_of_possible[i]);
                   });
}

}  // namespace

ShardRowSize choice_size(const SamplingParams& params, std::size_t largest_shard) {
  const auto best = static_cast<std::size_t>(std::max(params.logprobs, 0));
  const std::size_t tokens =
      way_of(params) == Way::top_k ? static_cast<std::size_t>(params.top_k) : std::size_t{1};
  return {.tokens = std::min(tokens, largest_shard), .best = std::min(best, largest_shard)};
}

std::vector<ShardRow> ShardedChoice::contribute(Communicator& comm, std::span<const ChoiceRow> rows,
                                                TokenId first_id) {
  std::vector<LocalRow> locals(rows.size());
  if (changed_.size() < rows.size()) changed_.resize(rows.size());
  const std::size_t work = rows.empty() ? 0 : rows.size() * rows.front().logits.size();
  for_thread_parts(rows.size(), work, [&](std::size_t begin, std::size_t end) {
    std::vector<float> scratch;  // stays in the processor's cache, unlike changed_, which draw() reads again
    for (std::size_t i = begin; i < end; ++i) {
      const bool is_drawn = way_of(*rows[i].params) == Way::draw;
      locals[i].row = &rows[i];
      locals[i].first_id = first_id;
      describe(locals[i]);
      apply_ops(locals[i], is_drawn ? changed_[i] : scratch);
      if (!is_drawn) contribute_best(locals[i]);
    }
  });
  std::vector<LocalRow*> drawn;
  for (LocalRow& local : locals) {
    if (way_of(local.params()) == Way::draw) drawn.push_back(&local);
  }
  draw(comm, std::move(drawn));
  std::vector<ShardRow> parts;
  for (LocalRow& local : locals) parts.push_back(std::move(local.part));
  return parts;
}

namespace {

// The winner of all ranks' draws; null if no rank has a winner.
const ShardToken* winner_of(std::span<const ShardRow> parts) {
  const ShardRow* best = nullptr;
  for (const ShardRow& part : parts) {
    if (part.tokens.empty()) continue;
    if (best == nullptr || part.score > best->score ||
        (part.score == best->score && part.tokens.front().id < best->tokens.front().id))
      best = &part;
  }
  return best == nullptr ? nullptr : &best->tokens.front();
}

// The token that rank 0 chooses among the contributed tokens; null if none is possible.
const ShardToken* choice_among(const ChoiceRow& row, std::span<const ShardRow> parts) {
  std::vector<Candidate> tokens;
  for (const ShardRow& part : parts) {
    for (const ShardToken& token : part.tokens) tokens.push_back({token.id, token.logit});
  }
  const auto first = std::ranges::min_element(tokens, more_likely);
  if (first == tokens.end() || first->logit == -kInfinity) return nullptr;
  const TokenId id = row.params->greedy() ? first->id : choose_among(std::move(tokens), *row.params, row.key);
  for (const ShardRow& part : parts) {
    const auto found = std::ranges::find(part.tokens, id, &ShardToken::id);
    if (found != part.tokens.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

Chosen conclude_choice(const ChoiceRow& row, std::span<const ShardRow> parts) {
  if (!usable(parts)) return Chosen{.error = ChoiceError::not_numbers};
  const ShardToken* const token =
      way_of(*row.params) == Way::draw ? winner_of(parts) : choice_among(row, parts);
  if (token == nullptr)
    return {.error = row.ops.any() ? ChoiceError::none_allowed : ChoiceError::not_numbers};
  Chosen chosen{.id = token->id};
  if (row.params->logprobs >= 0) {
    chosen.logprob = static_cast<float>(token->raw - sums_of(parts).log_sum_exp());
    chosen.top_logprobs = best_of(parts, static_cast<std::size_t>(row.params->logprobs));
  }
  return chosen;
}

}  // namespace tp
