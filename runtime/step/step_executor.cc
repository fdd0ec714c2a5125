#include "runtime/step/step_executor.h"

#include "model/layers/forward_in_halves.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/tracer.h"
#include "parallel/machine/stopwatch.h"
#include "runtime/sampling/max_logit.h"
#include "runtime/sampling/packed_masks.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace tp {
namespace {

// Allocates space for an output's results, unless they are whole rows.
Result room_for(const Output& output) {
  struct Visitor {
    std::size_t rows;
    Result operator()(const want::Choose&) const { return std::vector<Chosen>(rows); }
    Result operator()(const want::Candidates&) const { return std::vector<RowCandidates>(rows); }
    Result operator()(const want::Score&) const { return std::vector<double>(rows); }
    Result operator()(const want::Logits&) const { return WholeRows{}; }
    Result operator()(const want::Hidden&) const { return WholeRows{}; }
    Result operator()(const want::Proposal&) const { return std::vector<Proposal>(rows); }
  };
  return std::visit(Visitor{output.rows.count}, output.want);
}

bool is_choice(const Output& output) { return std::holds_alternative<want::Choose>(output.want); }
bool is_proposal(const Output& output) { return std::holds_alternative<want::Proposal>(output.want); }
bool is_hidden(const Output& output) { return std::holds_alternative<want::Hidden>(output.want); }
bool is_whole(const Output& output) { return std::holds_alternative<want::Logits>(output.want); }

// This rank's contribution to a row with candidates or a score. `first_id`: the first token of the rank's
// shard.
ShardRow part_of(const Output& output, std::size_t offset, std::span<const float> logits, TokenId first_id,
                 std::optional<float> row_max) {
  if (is_whole(output)) return {};
  if (!all_usable(logits)) return {.usable = false};
  const auto sums = [&](bool with_entropy) {
    return row_max ? exact_exp_sums(logits, *row_max, with_entropy) : exp_sums(logits, with_entropy);
  };
  if (const auto* wanted = std::get_if<want::Candidates>(&output.want))
    return {.sums = sums(wanted->entropy), .best = best_candidates(logits, first_id, wanted->count)};
  ShardRow part{.sums = sums(false)};
  const TokenId target = std::get<want::Score>(output.want).targets[offset];
  const auto index = static_cast<std::size_t>(target - first_id);
  if (target >= first_id && index < logits.size()) part.tokens = {{target, logits[index], logits[index]}};
  return part;
}

ShardRowSize size_of(const Output& output, std::size_t largest_shard) {
  if (const auto* wanted = std::get_if<want::Candidates>(&output.want))
    return {.best = std::min<std::size_t>(wanted->count, largest_shard)};
  return {.tokens = is_whole(output) ? std::size_t{0} : std::size_t{1}};
}

RowCandidates candidates_of(const want::Candidates& wanted, std::span<const ShardRow> parts) {
  if (!usable(parts)) return {};
  RowCandidates found{.best = best_of(parts, wanted.count)};
  if (wanted.entropy) found.entropy = sums_of(parts).entropy();
  return found;
}

double score_of(std::span<const ShardRow> parts) {
  const auto owner = std::ranges::find_if(parts, [](const ShardRow& part) { return !part.tokens.empty(); });
  if (!usable(parts) || owner == parts.end()) return std::numeric_limits<double>::quiet_NaN();
  return owner->tokens.front().raw - sums_of(parts).log_sum_exp();
}

// A batch that has only inputs.
Batch as_inputs(Batch batch) {
  Batch outer;
  outer.inputs = std::make_shared<Batch>(std::move(batch));
  return outer;
}

// Stores the result of a row with candidates or a score.
void conclude(const Output& output, std::size_t offset, std::span<const ShardRow> parts, Result& result) {
  if (const auto* wanted = std::get_if<want::Candidates>(&output.want))
    std::get<std::vector<RowCandidates>>(result)[offset] = candidates_of(*wanted, parts);
  else if (std::holds_alternative<want::Score>(output.want))
    std::get<std::vector<double>>(result)[offset] = score_of(parts);
}

}  // namespace

StepExecutor::StepExecutor(Communicator& comm, const Model& model, const KvCache& cache, Workspace& workspace,
                           std::size_t vocab_size, std::vector<Range> vocab_shards, Stage stage,
                           Model::StageLinks links, bool same_bits)
    : comm_(comm),
      model_(model),
      cache_(cache),
      workspace_(workspace),
      vocab_size_(vocab_size),
      vocab_shards_(std::move(vocab_shards)),
      stage_(stage),
      links_(std::move(links)),
      same_bits_(same_bits),
      sequences_(cache.groups()) {
  for (const Range& shard : vocab_shards_) largest_shard_ = std::max(largest_shard_, shard.size());
}

// Copies in chunk order, because a chunk may overwrite a slot that an earlier chunk copies from.
void StepExecutor::restore_states(const Forward& forward) const {
  for (const SequenceChunk& chunk : forward.chunks) {
    if (chunk.state.from == kNoSlot) continue;
    cache_.states().copy(static_cast<std::size_t>(chunk.state.from),
                         static_cast<std::size_t>(chunk.state.slot));
  }
}

void StepExecutor::read_states(const HiddenStates& states, std::size_t own_rows, std::size_t own_size) {
  read_states_ = &states;
  own_states_.emplace(own_rows, own_size);
  kept_states_ = &*own_states_;
}

void StepExecutor::keep_soft_embeddings(SoftEmbeddings memory) {
  canvases_.emplace(std::move(memory), model_.tables().embedding);
}

// Finds the state that each token reads. Missing states are replaced with zeros; the only effect is that
// drafts are less accurate.
void StepExecutor::find_states(const Forward& forward, Batch& batch) const {
  if (model_.has_draft_context() && !forward.gives_context) return;  // a block
  batch.states_before.assign(batch.tokens.size(), nullptr);
  batch.own_states = forward.reads_own_states;
  if (read_states_ == nullptr) return;
  std::size_t row = 0;
  for (const SequenceChunk& chunk : forward.chunks) {
    for (std::size_t i = 0; i < chunk.tokens; ++i, ++row) {
      const std::size_t position = chunk.start_position + i;
      batch.states_before[row] = forward.reads_own_states ? own_states_->find(chunk.sequence, position - 1)
                                                          : read_states_->find(chunk.sequence, position);
    }
  }
}

void StepExecutor::keep_streams(const Forward& forward, Batch& batch) const {
  if (kept_states_ == nullptr || !model_.captures()) return;
  for (const SequenceChunk& chunk : forward.chunks) {
    for (std::size_t i = 0; i < chunk.tokens; ++i)
      batch.captured.push_back(kept_states_->place_for(chunk.sequence, chunk.start_position + i));
  }
}

// The rows whose states are kept. A model keeps the states of all rows. A multi-token prediction layer keeps
// only the state of each chunk's last row, because the next chunk may start from it.
std::vector<StepExecutor::HiddenRow> StepExecutor::kept_rows(const Forward& forward) const {
  std::vector<HiddenRow> rows;
  if (kept_states_ == nullptr || model_.captures() || model_.has_draft_context()) return rows;
  std::size_t row = 0;
  for (const SequenceChunk& chunk : forward.chunks) {
    for (std::size_t i = 0; i < chunk.tokens; ++i, ++row) {
      const bool is_kept = !own_states_ || i + 1 == chunk.tokens;
      if (is_kept) rows.push_back({row, chunk.sequence, chunk.start_position + i});
    }
  }
  return rows;
}

// Allocates space for the results. Adds the outputs' hidden rows to `hidden`, and returns the rows with
// logits.
std::vector<StepExecutor::Row> StepExecutor::begin_outputs(const Forward& forward, Batch& batch,
                                                           std::vector<HiddenRow>& hidden) {
  std::vector<Row> rows;
  results_.clear();
  masks_.clear();
  for (std::size_t index = 0; index < forward.outputs.size(); ++index) {
    const Output& output = forward.outputs[index];
    results_.push_back(room_for(output));
    for (std::size_t offset = 0; offset < output.rows.count; ++offset) {
      const std::size_t row = sequences_.batch_row(output.sequence, output.rows.first + offset);
      if (is_hidden(output)) {
        hidden.push_back({.row = row, .output = index});
      } else {
        rows.push_back({&output, index, offset});
        batch.output_rows.push_back(row);
      }
    }
  }
  return rows;
}

std::vector<Result> StepExecutor::run(const Forward& forward) {
  Batch batch = sequences_.begin(forward);
  if (forward.tokens.empty()) return {};
  restore_states(forward);
  if (model_.reads_states()) find_states(forward, batch);
  if (canvases_) canvases_->begin(forward, sequences_, batch);
  if (forward.gives_context) batch = as_inputs(std::move(batch));
  keep_streams(forward, batch);
  if (!stage_.is_last()) {
    model_.forward(comm_, batch, cache_, workspace_, {}, {}, links_);
    return {};
  }
  std::vector<HiddenRow> hidden = kept_rows(forward);
  if (model_.markov_head() != nullptr) batch_tokens_ = batch.tokens;
  // Hidden states requested from an encoder-decoder belong to its input.
  std::vector<std::size_t>& hidden_rows = batch.inputs ? batch.inputs->hidden_rows : batch.hidden_rows;
  const std::vector<Row> rows = begin_outputs(forward, batch, hidden);
  for (std::size_t i = 0; model_.markov_head() != nullptr && i < rows.size(); ++i)
    hidden.push_back({.row = batch.output_rows[i], .chained = i});
  chain_states_.resize(rows.size());
  // Sorted on every rank, even if the rank keeps no states: unsorted rows rule out half-batches (halves_of),
  // and all ranks must divide a step in the same way.
  std::ranges::stable_sort(hidden, {}, &HiddenRow::row);
  for (const HiddenRow& row : hidden) hidden_rows.push_back(row.row);
  const auto on_logits = [&](std::size_t first, TensorView<const float> local_logits) {
    const Stopwatch watch;
    const std::span<const Row> some = std::span(rows).subspan(first, local_logits.rows());
    if (model_.markov_head() != nullptr)
      collect_chain(first, some, local_logits);
    else
      collect(some, local_logits, mask_source_ ? mask_source_ : forward.masks);
    collecting_seconds_ += watch.seconds();
  };
  const auto on_hidden = [&](std::size_t first, TensorView<const float> states) {
    for (std::size_t i = 0; i < states.rows(); ++i) {
      const std::span<const float> state(states.row(i), states.columns());
      const HiddenRow& row = hidden[first + i];
      if (row.chained)
        chain_states_[*row.chained].assign(state.begin(), state.end());
      else if (row.output)
        append_row(*row.output, state);
      else
        kept_states_->keep(row.sequence, row.position, state);
    }
  };
  if (forward.in_halves)
    forward_in_halves(model_, comm_, batch, cache_, workspace_, on_logits, on_hidden);
  else
    model_.forward(comm_, batch, cache_, workspace_, on_logits, on_hidden, links_);
  return std::move(results_);
}

void StepExecutor::collect(std::span<const Row> rows, TensorView<const float> local_logits,
                           const MaskSource& masks) {
  receive_masks(rows, masks);
  const auto whole = [](const Row& row) { return is_whole(*row.output); };
  if (!std::ranges::all_of(rows, whole)) collect_parts(rows, local_logits);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (whole(rows[i])) collect_whole(rows[i], local_logits.rows_from(i, 1));
  }
}

// Collects every row in a single gather, except the rows of want::Logits (see collect_whole).
void StepExecutor::collect_parts(std::span<const Row> rows, TensorView<const float> local_logits) {
  const TraceSpan span(comm_, Activity::choose, rows.size());
  const Range own = vocab_shards_[comm_.rank()];
  const auto first_id = static_cast<TokenId>(own.begin);
  const std::vector<std::optional<float>> maxima = row_maxima(rows, local_logits);
  std::vector<ChoiceRow> choices = choice_rows(rows, local_logits);
  for (std::size_t i = 0, choice = 0; i < rows.size(); ++i) {
    if (is_choice(*rows[i].output)) choices[choice++].row_max = maxima[i];
  }
  std::vector<ShardRow> chosen = choice_.contribute(comm_, choices, first_id);
  const Workspace::Frame frame(workspace_);
  const std::vector<CanvasRow> canvas = canvas_rows(rows);
  const TensorView<float> weights =
      canvas.empty() ? TensorView<float>() : workspace_.take(canvas.size(), own.size());
  const std::vector<ProposalRow> proposals = proposal_rows(rows, local_logits, weights);
  std::vector<ShardRow> proposed = contribute_proposals(comm_, proposals, first_id);
  if (!canvas.empty()) canvases_->keep(comm_, canvas, weights, workspace_);
  std::vector<ShardRow> parts;
  std::vector<ShardRowSize> sizes;
  for (std::size_t i = 0, choice = 0, proposal = 0; i < rows.size(); ++i) {
    const Output& output = *rows[i].output;
    if (is_proposal(output)) {
      sizes.push_back(kProposalSize);
      parts.push_back(std::move(proposed[proposal++]));
    } else if (is_choice(output)) {
      sizes.push_back(choice_size(*choices[choice].params, largest_shard_));
      parts.push_back(std::move(chosen[choice++]));
    } else {
      sizes.push_back(size_of(output, largest_shard_));
      parts.push_back(
          part_of(output, rows[i].offset, {local_logits.row(i), own.size()}, first_id, maxima[i]));
    }
  }
  const std::vector<std::vector<ShardRow>> all = gather_rows(comm_, parts, sizes);
  for (std::size_t i = 0, choice = 0, proposal = 0; i < all.size(); ++i) {
    const auto& [output, index, offset] = rows[i];
    if (is_proposal(*output))
      std::get<std::vector<Proposal>>(results_[index])[offset] =
          conclude_proposal(proposals[proposal++], all[i]);
    else if (is_choice(*output))
      std::get<std::vector<Chosen>>(results_[index])[offset] = conclude_choice(choices[choice++], all[i]);
    else
      conclude(*output, offset, all[i], results_[index]);
  }
}

// Each row's largest logit over all ranks, for use in sums of exp(logit - max). All are nullopt if no row
// needs such a sum, and without same_bits, because the sums may then depend on the number of ranks.
std::vector<std::optional<float>> StepExecutor::row_maxima(std::span<const Row> rows,
                                                           TensorView<const float> local_logits) {
  const auto wants_sums = [&](const Row& row) {
    if (!is_choice(*row.output)) return !is_whole(*row.output) && !is_proposal(*row.output);
    return sequences_.start(row.output->sequence).sampling.logprobs >= 0;
  };
  if (!same_bits_ || std::ranges::none_of(rows, wants_sums))
    return std::vector<std::optional<float>>(rows.size());
  const std::size_t own = vocab_shards_[comm_.rank()].size();
  std::vector<float> maxima;
  for (std::size_t i = 0; i < rows.size(); ++i)
    maxima.push_back(max_logit(std::span<const float>(local_logits.row(i), own)));
  exchange_max(comm_, maxima);
  return {maxima.begin(), maxima.end()};
}

// Broadcasts the masks of all masked rows: first the kinds of the packed masks, then their values.
void StepExecutor::receive_masks(std::span<const Row> rows, const MaskSource& masks) {
  std::vector<TokenMask*> wanted;
  for (const Row& row : rows) {
    const auto* choose = std::get_if<want::Choose>(&row.output->want);
    if (choose == nullptr || !choose->masked || masks_.contains(row.index)) continue;
    TokenMask& mask = masks_[row.index];
    if (comm_.is_root()) mask = masks(row.index);
    if (mask.words().size() != TokenMask(vocab_size_).words().size()) mask = TokenMask(vocab_size_);
    wanted.push_back(&mask);
  }
  if (wanted.empty()) return;
  std::vector<std::uint32_t> kinds(wanted.size());
  std::optional<PackedMasks> packed;
  if (comm_.is_root()) kinds = packed.emplace(wanted).kinds;
  broadcast_bytes(comm_, std::as_writable_bytes(std::span(kinds)));
  if (!packed) packed.emplace(std::move(kinds), TokenMask(vocab_size_).words().size());
  broadcast_bytes(comm_, std::as_writable_bytes(std::span(packed->values)));
  if (!comm_.is_root()) packed->unpack(wanted);
}

std::vector<ChoiceRow> StepExecutor::choice_rows(std::span<const Row> rows,
                                                 TensorView<const float> local_logits) {
  std::vector<ChoiceRow> choices;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Output& output = *rows[i].output;
    if (!is_choice(output)) continue;
    const SequenceStart& start = sequences_.start(output.sequence);
    const std::size_t row = output.rows.first + rows[i].offset;
    ChoiceRow& choice = choices.emplace_back();
    choice.logits = {local_logits.row(i), vocab_shards_[comm_.rank()].size()};
    choice.params = &start.sampling;
    const std::size_t position =
        sequences_.position_after(output.sequence, row) + static_cast<std::size_t>(model_.draft_offset());
    choice.key = {start.seed, start.sample, position};
    const auto& choose = std::get<want::Choose>(output.want);
    choice.ops = {.params = &start.sampling, .bias = start.sampling.logit_bias, .banned = choose.banned};
    if (choose.masked) choice.ops.allowed = &masks_.at(rows[i].index);
    if (!needs_history(start.sampling)) continue;
    choice.ops.history = &sequences_.history(output.sequence);
    choice.ops.later = sequences_.history_after(output.sequence, row);
  }
  return choices;
}

// `weights`: see canvas_rows().
std::vector<ProposalRow> StepExecutor::proposal_rows(std::span<const Row> rows,
                                                     TensorView<const float> local_logits,
                                                     TensorView<float> weights) const {
  std::vector<ProposalRow> proposals;
  std::size_t weighted = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Output& output = *rows[i].output;
    if (!is_proposal(output)) continue;
    const SequenceStart& start = sequences_.start(output.sequence);
    proposals.push_back(
        {.logits = {local_logits.row(i), vocab_shards_[comm_.rank()].size()},
         .params = &start.sampling,
         .key = {start.seed, start.sample,
                 sequences_.position_after(output.sequence, output.rows.first + rows[i].offset)},
         .settings = std::get<want::Proposal>(output.want).settings});
    if (start.canvas.has_next) proposals.back().weights = {weights.row(weighted++), weights.columns()};
  }
  return proposals;
}

// The rows that leave soft embeddings, in the order of proposal_rows(): a row of weights for each of them.
std::vector<CanvasRow> StepExecutor::canvas_rows(std::span<const Row> rows) const {
  std::vector<CanvasRow> found;
  for (const Row& row : rows) {
    const PassCanvas& canvas = sequences_.start(row.output->sequence).canvas;
    if (!canvases_ || !canvas.has_next || !is_proposal(*row.output)) continue;
    const std::size_t after =
        sequences_.position_after(row.output->sequence, row.output->rows.first + row.offset);
    found.push_back({canvas.key, after - 1 - canvas.begin});
  }
  return found;
}

void StepExecutor::append_row(std::size_t output, std::span<const float> row) {
  if (!comm_.is_root()) return;
  auto& whole = std::get<WholeRows>(results_[output]);
  whole.columns = row.size();
  whole.values.insert(whole.values.end(), row.begin(), row.end());
}

void StepExecutor::collect_whole(const Row& row, TensorView<const float> local_row) {
  std::vector<float> whole(comm_.is_root() ? vocab_size_ : 0);
  gather_columns(comm_, local_row, vocab_shards_, TensorView<float>(whole.data(), 1, whole.size()));
  append_row(row.index, whole);
}

}  // namespace tp
