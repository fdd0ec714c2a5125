#pragma once

#include "model/tokenizer/embedded_vocabulary.h"

#include <cstddef>
#include <string>

namespace tp {

// A vocabulary, and its agreement with the original tokenizer.
struct EmbeddingResult {
  EmbeddedVocabulary vocabulary;
  // Texts that begin with a space may get a different first token, because Hugging Face's tokenizers of
  // SentencePiece vocabularies do not add the second space that SentencePiece adds.
  bool differs_in_first_space = false;
};

// Finds a vocabulary that makes the same tokens as a tokenizer in another format. `rows`: rows of the model's
// embedding. Ids without a token become unused tokens, and tokens without a row are omitted. The
// pre-tokenizer is found by trying all names on texts for which they differ. `source` names the tokenizer in
// errors. Throws CheckpointError if no vocabulary agrees.
EmbeddingResult embed_vocabulary(TokenizerParts parts, std::size_t rows, const std::string& source);

}  // namespace tp
