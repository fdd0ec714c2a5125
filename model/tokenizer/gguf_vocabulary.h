// The vocabulary in a GGUF file's metadata.
#pragma once

#include "model/tokenizer/embedded_vocabulary.h"
#include "model/weights/gguf/gguf_metadata.h"
#include "model/weights/gguf/gguf_values.h"

#include <optional>
#include <string>
#include <vector>

namespace tp {

// Why texts cannot be tokenized: a kind of tokenizer, or a pre-tokenizer, that tp-infer does not know.
std::optional<std::string> unsupported_tokenizer(const GgufMetadata& metadata);

// The special tokens whose ids have no token in the vocabulary: "tokenizer.ggml.eos_token_id 261". They count
// as absent.
std::vector<std::string> unknown_token_ids(const GgufMetadata& metadata);

// Nothing if the file says that it has none. Throws CheckpointError for values of another kind than expected,
// and for what unsupported_tokenizer says.
std::optional<EmbeddedVocabulary> gguf_vocabulary(const GgufMetadata& metadata);

// The reverse: the values that stand for a vocabulary.
void write_vocabulary(const EmbeddedVocabulary& vocabulary, GgufValues& values);

}  // namespace tp
