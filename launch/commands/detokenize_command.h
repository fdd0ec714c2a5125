#pragma once

#include "launch/common/for_each_line.h"
#include "model/tokenizer/tokenizer.h"

#include <istream>

namespace tp {

struct DetokenizeOptions {
  bool jsonl = false;  // write JSON strings
  SkipSpecial skip_special = SkipSpecial::no;
};

// Decodes each line of `in`, which is a JSON list of ids or an object with such a list in "ids". Writes the
// text and a newline, or with `jsonl` a JSON string. Throws RequestError with the line's number.
void detokenize_lines(const Tokenizer& tokenizer, const DetokenizeOptions& options, std::istream& in,
                      const TextSink& write);

}  // namespace tp
