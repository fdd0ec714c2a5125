#include "runtime/sampling/sharded_proposal.h"

#include "parallel/exchange/collectives.h"
#include "runtime/sampling/exponential.h"
#include "runtime/sampling/max_logit.h"
#include "runtime/sampling/sampler.h"
#include "runtime/sampling/vocab_cut.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace tp {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Greedy choices are measured in the model's own distribution, which has temperature 1.
float inverse_temperature_of(const SamplingParams& params) {
  return params.greedy() ? 1.0F : inverse_temperature(params.temperature);
}

bool is_greedy(const ProposalRow& row) { return row.params->greedy() || row.settings.greedy; }

bool is_cut(const SamplingParams& params) { return params.top_k > 0 || params.top_p < 1.0F; }

// This rank's part of a row.
struct LocalProposal {
  const ProposalRow* row = nullptr;
  float max = 0.0F;              // maximum logit of the whole row
  std::vector<float> allowed{};  // logits without the mask token if this rank owns it; else empty
  VocabPart part;                // tokens that may be proposed

  // The logit in the distribution by which confidence is measured, relative to the maximum logit.
  float scaled(float logit) const {
    return row->settings.filtered ? (logit - max) * inverse_temperature_of(*row->params) : logit - max;
  }
};

// Excludes the mask token, which is never proposed although its logit counts in sums. Empty if another rank
// owns it.
std::vector<float> without_mask(const ProposalRow& row, TokenId first_id) {
  const auto index = static_cast<std::size_t>(row.settings.mask_token - first_id);
  if (row.settings.mask_token < first_id || index >= row.logits.size()) return {};
  std::vector<float> allowed(row.logits.begin(), row.logits.end());
  allowed[index] = kNever;
  return allowed;
}

// Finds the last token that top_k and top_p keep, in every row.
void cut_rows(Communicator& comm, std::span<LocalProposal> locals) {
  std::vector<Cut> by_count;
  std::vector<Cut> by_share;
  for (LocalProposal& local : locals) {
    const SamplingParams& params = *local.row->params;
    if (is_greedy(*local.row) && !local.row->settings.filtered) continue;
    if (params.top_k > 0) by_count.push_back({&local.part, static_cast<std::size_t>(params.top_k)});
    if (params.top_p < 1.0F) by_share.push_back({&local.part, 0, params.top_p});
  }
  cut_vocabulary(comm, by_count);
  cut_vocabulary(comm, by_share);  // applies to the tokens that top_k kept
}

void propose_best(const LocalProposal& local, ShardRow& out) {
  const std::vector<Candidate> best = best_candidates(local.part.logits, local.part.first_id, 1);
  if (!best.empty()) out.tokens = {{best.front().id, best.front().logit, local.scaled(best.front().logit)}};
}

void propose_drawn(const LocalProposal& local, ShardRow& out) {
  GumbelDraw draw(local.row->key, local.max, inverse_temperature_of(*local.row->params));
  for (std::size_t i = 0; i < local.part.logits.size(); ++i) {
    if (const Candidate token = local.part.token(i); local.part.counts(token)) draw.consider(token);
  }
  out.score = draw.score();
  if (draw.score() == -std::numeric_limits<double>::infinity()) return;
  out.tokens = {{draw.winner().id, draw.winner().logit, local.scaled(draw.winner().logit)}};
}

// The scaled logits whose distribution measures confidence: of all tokens, or only of the tokens that top_k
// and top_p keep.
std::vector<float> distribution_of(const LocalProposal& local) {
  const bool kept_only = local.row->settings.filtered && is_cut(*local.row->params);
  std::vector<float> scaled;
  scaled.reserve(local.row->logits.size());
  for (std::size_t i = 0; i < local.row->logits.size(); ++i) {
    const bool counts = !kept_only || local.part.counts(local.part.token(i));
    scaled.push_back(counts ? local.scaled(local.row->logits[i]) : kNever);
  }
  return scaled;
}

void write_weights(std::span<const float> scaled, std::span<float> weights) {
  constexpr float kMin = -22.180709F;  // ln 2^-32
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = scaled[i] >= kMin ? exp_nonpositive(scaled[i]) : 0.0F;
}

ShardRow part_of(const LocalProposal& local) {
  ShardRow out;
  is_greedy(*local.row) ? propose_best(local, out) : propose_drawn(local, out);
  const std::vector<float> scaled = distribution_of(local);
  write_weights(scaled, local.row->weights);
  const ProposalMeasure measure = local.row->settings.measure;
  out.sums = exact_exp_sums(scaled, 0.0F, measure == ProposalMeasure::entropy);
  if (measure == ProposalMeasure::margin)
    out.best = best_candidates(scaled, local.part.first_id, kProposalSize.best);
  if (measure == ProposalMeasure::entropy)
    out.best = best_candidates(local.row->logits, local.part.first_id, 1);
  return out;
}

// The maximum logit of every row over all ranks; infinity if any logit of the row is not usable.
std::vector<float> maxima_of(Communicator& comm, std::span<const ProposalRow> rows) {
  std::vector<float> maxima;
  for (const ProposalRow& row : rows)
    maxima.push_back(all_usable(row.logits) ? max_logit(row.logits) : std::numeric_limits<float>::infinity());
  exchange_max(comm, maxima);
  return maxima;
}

}  // namespace

std::vector<ShardRow> contribute_proposals(Communicator& comm, std::span<const ProposalRow> rows,
                                           TokenId first_id) {
  if (rows.empty()) return {};
  const std::vector<float> maxima = maxima_of(comm, rows);
  for (const ProposalRow& row : rows) std::ranges::fill(row.weights, 0.0F);
  std::vector<ShardRow> parts(rows.size(), ShardRow{.usable = false});
  std::vector<LocalProposal> locals;
  std::vector<std::size_t> places;
  locals.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!std::isfinite(maxima[i])) continue;
    const ProposalRow& row = rows[i];
    std::vector<float> allowed = without_mask(row, first_id);
    const NucleusScale scale(maxima[i], inverse_temperature_of(*row.params));
    LocalProposal& local = locals.emplace_back(
        LocalProposal{&row, maxima[i], std::move(allowed), VocabPart{row.logits, first_id, scale}});
    if (!local.allowed.empty()) local.part.logits = local.allowed;
    places.push_back(i);
  }
  cut_rows(comm, locals);
  const std::size_t work = rows.size() * rows.front().logits.size();
  for_thread_parts(locals.size(), work, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) parts[places[i]] = part_of(locals[i]);
  });
  return parts;
}

namespace {

// The winner among all ranks' tokens; null if there is none.
const ShardToken* best_proposal(const ProposalRow& row, std::span<const ShardRow> parts) {
  const ShardRow* best = nullptr;
  for (const ShardRow& part : parts) {
    if (part.tokens.empty()) continue;
    const ShardToken& token = part.tokens.front();
    if (best == nullptr) {
      best = &part;
      continue;
    }
    const ShardToken& other = best->tokens.front();
    const bool wins = is_greedy(row)
                          ? more_likely({token.id, token.logit}, {other.id, other.logit})
                          : part.score > best->score || (part.score == best->score && token.id < other.id);
    if (wins) best = &part;
  }
  return best == nullptr ? nullptr : &best->tokens.front();
}

TokenId most_probable(std::span<const ShardRow> parts) {
  const Candidate* best = nullptr;
  for (const ShardRow& part : parts) {
    for (const Candidate& candidate : part.best) {
      if (best == nullptr || more_likely(candidate, *best)) best = &candidate;
    }
  }
  return best == nullptr ? -1 : best->id;
}

double margin_of(std::span<const ShardRow> parts, double log_sum) {
  std::vector<Candidate> all;
  for (const ShardRow& part : parts) all.insert(all.end(), part.best.begin(), part.best.end());
  std::ranges::sort(all, more_likely);
  const double second = all.size() > 1 ? std::exp(all[1].logit - log_sum) : 0.0;
  return all.empty() ? 0.0 : std::exp(all[0].logit - log_sum) - second;
}

}  // namespace

Proposal conclude_proposal(const ProposalRow& row, std::span<const ShardRow> parts) {
  if (!usable(parts)) return {};
  const ShardToken* const token = best_proposal(row, parts);
  if (token == nullptr || token->logit == kNever) return {};
  const ExpSums sums = sums_of(parts);
  const double log_sum = sums.log_sum_exp();
  switch (row.settings.measure) {
    case ProposalMeasure::margin:
      return {token->id, margin_of(parts, log_sum)};
    case ProposalMeasure::entropy:
      return {token->id, -sums.entropy(), most_probable(parts)};
    case ProposalMeasure::probability:
      break;
  }
  return {token->id, std::exp(token->raw - log_sum)};
}

}  // namespace tp
