// Blocks of draft tokens whose logits depend on the draft token before.
#include "parallel/exchange/collectives.h"
#include "runtime/step/step_executor.h"

#include <algorithm>
#include <span>
#include <variant>

namespace tp {

void StepExecutor::collect_chain(std::size_t first, std::span<const Row> rows,
                                 TensorView<const float> local_logits) {
  const MarkovHead& head = *model_.markov_head();
  if (!chain_workspace_) chain_workspace_.emplace(head.workspace_floats());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const Output& output = *row.output;
    // The block's known token is in the first drafting row, or in the row before it.
    const std::size_t begin = sequences_.batch_row(output.sequence, output.rows.first);
    if (row.offset == 0) drafted_ = batch_tokens_[begin - (model_.draft_offset() < 0 ? 1 : 0)];
    std::vector<float> own(local_logits.row(i), local_logits.row(i) + local_logits.columns());
    const TensorView<float> corrected(own.data(), 1, own.size());
    const std::optional<float> confidence =
        head.correct(comm_, drafted_, chain_states_[first + i], corrected, *chain_workspace_);
    if (std::holds_alternative<want::Logits>(output.want))
      collect_whole(row, corrected);
    else
      collect_parts({&row, 1}, corrected);
    if (comm_.is_root() && std::holds_alternative<want::Choose>(output.want))
      std::get<std::vector<Chosen>>(results_[row.index])[row.offset].confidence = confidence;
    drafted_ = drafted_in(row);
  }
}

// The most likely token stands for a row whose logits are wanted.
TokenId StepExecutor::drafted_in(const Row& row) {
  TokenId id = 0;
  if (comm_.is_root()) {
    const Result& result = results_[row.index];
    if (const auto* const chosen = std::get_if<std::vector<Chosen>>(&result)) {
      id = (*chosen)[row.offset].id;
    } else if (const auto* const whole = std::get_if<WholeRows>(&result)) {
      const auto last = std::span(whole->values).last(whole->columns);
      id = static_cast<TokenId>(std::ranges::max_element(last) - last.begin());
    }
  }
  broadcast_bytes(comm_, std::as_writable_bytes(std::span(&id, 1)));
  return id;
}

}  // namespace tp
