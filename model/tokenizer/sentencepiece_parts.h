// Tokenizers made of SentencePiece files. Each function reads the named file, and the files beside it that
// its format has. They throw CheckpointError.
#pragma once

#include "model/tokenizer/tokenizer.h"

#include <filesystem>

namespace tp {

// tokenizer.model. Texts begin with BOS if the file has one, as in Llama and Gemma. tokenizer_config.json may
// override this.
TokenizerParts parts_from_sentencepiece(const std::filesystem::path& path);

// T5's spiece.model. Texts end with </s>. After the pieces come the sentinels <extra_id_0> to <extra_id_99>,
// in descending order.
TokenizerParts parts_from_t5_file(const std::filesystem::path& path);

// Marian: source.spm cuts the input into pieces, and target.spm contains the pieces of the output. The ids of
// both are in vocab.json. Input may begin with a code of the target language, such as >>fr<<, and ends with
// </s>.
TokenizerParts parts_from_marian_file(const std::filesystem::path& path);

}  // namespace tp
