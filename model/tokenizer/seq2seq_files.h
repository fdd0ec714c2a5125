// The tokenizers that repositories of encoder-decoders have in place of a tokenizer.json.
#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// T5's: a SentencePiece model, texts end with </s>, and behind its pieces are the sentinels <extra_id_0> to
// <extra_id_99>, in descending order.
inline constexpr const char* kT5File = "spiece.model";
TokenizerParts parts_from_t5_file(const std::filesystem::path& folder);

// Marian's: source.spm cuts the input into pieces, whose ids are in vocab.json, as are those of the pieces of
// target.spm, which texts are made of. Input may begin with a code of the target language, such as >>fr<<,
// and ends with </s>.
bool has_marian_files(const std::filesystem::path& folder);
TokenizerParts parts_from_marian_files(const std::filesystem::path& folder);

}  // namespace tp
