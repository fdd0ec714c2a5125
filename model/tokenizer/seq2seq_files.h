// The tokenizers of encoder-decoder repositories without a tokenizer.json.
#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// T5: a SentencePiece model. Texts end with </s>. After the pieces come the sentinels <extra_id_0> to
// <extra_id_99>, in descending order.
inline constexpr const char* kT5File = "spiece.model";
TokenizerParts parts_from_t5_file(const std::filesystem::path& folder);

// Marian: source.spm cuts the input into pieces, and target.spm contains the pieces of the output. The ids of
// both are in vocab.json. Input may begin with a code of the target language, such as >>fr<<, and ends with
// </s>.
bool has_marian_files(const std::filesystem::path& folder);
TokenizerParts parts_from_marian_files(const std::filesystem::path& folder);

}  // namespace tp
