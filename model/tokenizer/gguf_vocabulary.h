// The vocabulary in a GGUF file's metadata.
#pragma once

#include "model/tokenizer/embedded_vocabulary.h"
#include "model/weights/gguf/gguf_metadata.h"
#include "model/weights/gguf/gguf_values.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The reason why texts cannot be tokenized: a type of tokenizer or a pre-tokenizer that tp-infer does not
// know; else nullopt.
std::optional<std::string> unsupported_tokenizer(const GgufMetadata& metadata);

// The special tokens whose ids have no token in the vocabulary, such as "tokenizer.ggml.eos_token_id 261".
// They count as absent.
std::vector<std::string> unknown_token_ids(const GgufMetadata& metadata);

// Sets `strip_left` and `strip_right`. GGUF files do not store these flags, but models rely on them, so
// readers infer them from names. The rules are those of llama.cpp (llama-vocab.cpp, "Handle per token
// attributes").
void infer_stripping(std::string_view model_name, std::string_view architecture,
                     EmbeddedVocabulary& vocabulary);

// Reads the vocabulary. Returns nullopt if the file has none by its own account. Throws CheckpointError for
// values of unexpected types, and for the reasons that unsupported_tokenizer reports.
std::optional<EmbeddedVocabulary> gguf_vocabulary(const GgufMetadata& metadata);

// Converts a vocabulary to metadata values.
void write_vocabulary(const EmbeddedVocabulary& vocabulary, GgufValues& values);

}  // namespace tp
