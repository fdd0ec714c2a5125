// The tokens that a drafter's LM head knows, if it lacks tokens of the vocabulary.
#pragma once

#include "model/memory/workspace.h"
#include "model/weights/weight_loader.h"
#include "parallel/shard/shard.h"
#include "tp/tensor.h"
#include "tp/token_id.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tp {

// Ranks divide the rows of the LM head evenly. Tokens ascend with the rows, so each rank's rows belong to
// tokens of one range, and these ranges cover the vocabulary.
class DraftVocabulary {
 public:
  // `tensor` contains token minus row, for each of `rows` rows. Throws CheckpointError unless tokens ascend
  // and are in the vocabulary.
  DraftVocabulary(WeightLoader& loader, const std::string& tensor, std::size_t rows, std::size_t vocab_size);

  // The tokens whose logits this rank computes.
  Range tokens_on(TpRank tp) const;
  // Spreads the logits of this rank's rows, [outputs, local rows], over its tokens: [outputs, local tokens].
  // The logits of tokens without a row are -infinity.
  TensorView<float> spread(TensorView<const float> logits, Workspace& workspace) const;

 private:
  std::size_t vocab_size_;
  std::size_t rows_;
  Range own_rows_;
  std::vector<TokenId> tokens_;  // [rows]; empty if only shapes are loaded
  Range own_;                    // tokens; all of them if only shapes are loaded, as an upper limit
};

}  // namespace tp
