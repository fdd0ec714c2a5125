#pragma once

#include "model/tokenizer/embedded_vocabulary.h"

#include <cstddef>
#include <optional>
#include <string>

namespace tp {

// A vocabulary, and its agreement with the original tokenizer.
struct EmbeddingResult {
  EmbeddedVocabulary vocabulary;
  // Texts that begin with a space may get a different first token, because Hugging Face's tokenizers of
  // SentencePiece vocabularies do not add the second space that SentencePiece adds.
  bool differs_in_first_space = false;
  // An added token after which texts get a different first token: SentencePiece adds a space there, too.
  std::optional<std::string> differs_after{};
};

// Finds a vocabulary that makes the same tokens as a tokenizer in another format. `rows`: rows of the model's
// embedding. Ids without a token become unused tokens, and tokens without a row are omitted. The
// pre-tokenizer is found by trying all names on texts for which they differ. `model_name` is the name in the
// file, from which readers infer flags of added tokens. It also names the tokenizer in errors. Throws
// CheckpointError if no vocabulary agrees, and for flags of added tokens that the file cannot store.
EmbeddingResult embed_vocabulary(TokenizerParts parts, std::size_t rows, const std::string& model_name);

}  // namespace tp
