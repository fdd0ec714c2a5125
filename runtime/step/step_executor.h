// Runs forward passes on a rank.
#pragma once

#include "model/layers/model.h"
#include "runtime/cache/hidden_states.h"
#include "runtime/protocol/command.h"
#include "runtime/protocol/outputs.h"
#include "runtime/sampling/sharded_choice.h"
#include "runtime/sampling/sharded_proposal.h"
#include "runtime/step/canvas_states.h"
#include "runtime/step/rank_sequences.h"
#include "tp/communicator.h"
#include "tp/token_mask.h"

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace tp {

// Runs the model and collects the requested outputs on the first rank of the last stage.
class StepExecutor {
 public:
  // `comm`: the ranks of this stage. `vocab_shards`: the tokens whose logits each rank computes, [ranks].
  // `links` connect this stage with its neighbours, if any. Only the last stage has outputs.
  StepExecutor(Communicator& comm, const Model& model, const KvCache& cache, Workspace& workspace,
               std::size_t vocab_size, std::vector<Range> vocab_shards, Stage stage, Model::StageLinks links,
               bool same_bits = false);

  // From now on, keeps the hidden states of all rows in `states`, or the streams that the model captures.
  void keep_states(HiddenStates& states) { kept_states_ = &states; }
  // For a layer or drafter that reads the model's hidden states: sets the states to read, and how many of its
  // own states to keep, of `own_size` floats.
  void read_states(const HiddenStates& states, std::size_t own_rows, std::size_t own_size);

  // For a model of canvases: keeps the soft embeddings of passes in `memory`.
  void keep_soft_embeddings(SoftEmbeddings memory);

  // For the last of several stages: sets the source of masks in place of Forward::masks, which only rank 0
  // has.
  void receive_masks_from(MaskSource source) { mask_source_ = std::move(source); }

  // Collective: every rank runs the same pass. Only the last stage's first rank returns valid results and
  // calls the mask source, after the logits are computed.
  std::vector<Result> run(const Forward& forward);

  // Seconds spent choosing tokens and collecting results, including time waiting for other ranks.
  double collecting_seconds() const { return collecting_seconds_; }

 private:
  // One row of an output.
  struct Row {
    const Output* output = nullptr;
    std::size_t index = 0;   // index of the output
    std::size_t offset = 0;  // row within the output
  };

  // A row whose hidden state is requested as an output or kept.
  struct HiddenRow {
    std::size_t row = 0;  // row of the batch
    SequenceId sequence = 0;
    std::size_t position = 0;
    std::optional<std::size_t> output{};   // index of the output; nullopt: the state is kept
    std::optional<std::size_t> chained{};  // index of the row of logits that a Markov head corrects
  };

  std::vector<HiddenRow> kept_rows(const Forward& forward) const;
  void restore_states(const Forward& forward) const;
  void find_states(const Forward& forward, Batch& batch) const;
  // Gives the streams that the model captures their places among the kept states.
  void keep_streams(const Forward& forward, Batch& batch) const;
  std::vector<Row> begin_outputs(const Forward& forward, Batch& batch, std::vector<HiddenRow>& hidden);
  void collect(std::span<const Row> rows, TensorView<const float> local_logits, const MaskSource& masks);
  void collect_parts(std::span<const Row> rows, TensorView<const float> local_logits);
  void collect_whole(const Row& row, TensorView<const float> local_row);
  // Corrects the rows of blocks and collects them one after the other, because the logits of each row depend
  // on the token that was drafted before it. `first`: index of the first row among all rows of the pass.
  void collect_chain(std::size_t first, std::span<const Row> rows, TensorView<const float> local_logits);
  // The token of a row that was collected last, on every rank.
  TokenId drafted_in(const Row& row);
  void append_row(std::size_t output, std::span<const float> row);
  std::vector<std::optional<float>> row_maxima(std::span<const Row> rows,
                                               TensorView<const float> local_logits);
  std::vector<ChoiceRow> choice_rows(std::span<const Row> rows, TensorView<const float> local_logits);
  std::vector<ProposalRow> proposal_rows(std::span<const Row> rows, TensorView<const float> local_logits,
                                         TensorView<float> weights) const;
  std::vector<CanvasRow> canvas_rows(std::span<const Row> rows) const;
  void receive_masks(std::span<const Row> rows, const MaskSource& masks);

  Communicator& comm_;
  const Model& model_;
  const KvCache& cache_;
  Workspace& workspace_;
  std::size_t vocab_size_;
  std::vector<Range> vocab_shards_;  // [ranks]
  std::size_t largest_shard_ = 0;
  Stage stage_;
  Model::StageLinks links_;
  bool same_bits_;
  RankSequences sequences_;
  HiddenStates* kept_states_ = nullptr;
  const HiddenStates* read_states_ = nullptr;  // the model's states; null if this model reads none
  std::optional<HiddenStates> own_states_;     // this layer's own states, each from the end of a chunk
  std::optional<CanvasStates> canvases_;       // set for a model of canvases
  ShardedChoice choice_;
  MaskSource mask_source_;                  // set in the last of several stages
  std::vector<Result> results_;             // results of the current pass
  std::map<std::size_t, TokenMask> masks_;  // masks of the current pass, by output index
  // For a Markov head: the tokens of the current pass, and the states of its rows with logits.
  std::vector<TokenId> batch_tokens_;
  std::vector<std::vector<float>> chain_states_;  // [rows][hidden_size]
  TokenId drafted_ = 0;                           // token of the last row
  std::optional<Workspace> chain_workspace_;
  double collecting_seconds_ = 0.0;
};

}  // namespace tp
