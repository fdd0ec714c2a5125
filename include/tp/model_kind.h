// Kinds of models and their tasks.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tp {

enum class ModelKind : std::uint8_t {
  decoder,        // predicts the next token
  encoder,        // computes hidden states only
  masked_lm,      // an encoder that predicts masked tokens
  classifier,     // an encoder that scores a sequence, one score per label
  list_reranker,  // a decoder's body that compares the documents of a list with a query
  diffusion,      // fills in masked tokens, in any order
  seq2seq,     // an encoder, and a decoder that attends to the encoder's states and predicts the next token
  non_causal,  // a decoder whose tokens also attend to later tokens, so that it cannot predict them
  drafter      // drafts another model's tokens from this model's hidden states
};

// "a decoder", "a masked language model", ... for error messages.
std::string_view describe(ModelKind kind);

enum class Task : std::uint8_t { generate, score, logits, hidden, embed, fill_mask, classify, rank };

std::vector<Task> tasks_of(ModelKind kind);
bool does(ModelKind kind, Task task);

// How a sequence's hidden states become one state: the mean, or the first or last token's state.
enum class Pooling : std::uint8_t { mean, first, last };

}  // namespace tp
