// Kinds of models, and what each kind can do.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tp {

enum class ModelKind : std::uint8_t {
  decoder,     // predicts the next token
  encoder,     // gives hidden states only
  masked_lm,   // an encoder that predicts the tokens behind masks
  classifier,  // an encoder that gives a sequence scores, one for each label
  diffusion,   // fills in masked tokens, in any order
  seq2seq      // an encoder, and a decoder that reads what it makes of its input and predicts the next token
};

// "a decoder", "a masked language model", ... for error texts.
std::string_view describe(ModelKind kind);

enum class Task : std::uint8_t { generate, score, logits, hidden, embed, fill_mask, classify, rank };

// All that a model of this kind does.
std::vector<Task> tasks_of(ModelKind kind);
bool does(ModelKind kind, Task task);

// How the hidden states of a sequence become one: their mean, or that of the first or last token.
enum class Pooling : std::uint8_t { mean, first, last };

}  // namespace tp
