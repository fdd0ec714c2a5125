#pragma once

#include "model/tokenizer/embedded_vocabulary.h"

#include <cstddef>
#include <string>

namespace tp {

// A vocabulary, and how well it agrees with the tokenizer that it is of.
struct EmbeddingResult {
  EmbeddedVocabulary vocabulary;
  // Texts that begin with a space may get another first token: Hugging Face's tokenizers of SentencePiece's
  // vocabularies add no second space to them, as SentencePiece does.
  bool differs_in_first_space = false;
};

// The vocabulary that makes the same tokens of texts as a tokenizer of another format, for a model whose
// embedding has so many rows: ids without a token are unused ones, tokens without a row are left out. The
// name of the pre-tokenizer is found by trying all of them on texts in which they differ. `source` names the
// tokenizer in errors. Throws CheckpointError if no vocabulary agrees with it.
EmbeddingResult embed_vocabulary(TokenizerParts parts, std::size_t rows, const std::string& source);

}  // namespace tp
