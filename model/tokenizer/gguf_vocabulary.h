// The vocabulary in a GGUF file's metadata.
#pragma once

#include "model/tokenizer/embedded_vocabulary.h"
#include "model/weights/checkpoint/gguf_metadata.h"
#include "model/weights/checkpoint/gguf_values.h"

#include <optional>

namespace tp {

// Nothing if the file says that it has none. Throws CheckpointError for values of another kind than expected,
// and for kinds of tokenizers that tp-infer does not know.
std::optional<EmbeddedVocabulary> gguf_vocabulary(const GgufMetadata& metadata);

// The reverse: the values that stand for a vocabulary.
void write_vocabulary(const EmbeddedVocabulary& vocabulary, GgufValues& values);

}  // namespace tp
