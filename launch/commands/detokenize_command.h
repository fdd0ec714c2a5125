#pragma once

#include "launch/common/for_each_line.h"
#include "model/tokenizer/tokenizer.h"

#include <istream>

namespace tp {

struct DetokenizeOptions {
  bool jsonl = false;  // write JSON strings
  SkipSpecial skip_special = SkipSpecial::no;
};

// What the command does with its input: every line is a JSON list of ids, or an object with a member "ids"
// that is one; writes its text and a newline, or with `jsonl` the text as a JSON string. Throws RequestError
// with the number of the line.
void detokenize_lines(const Tokenizer& tokenizer, const DetokenizeOptions& options, std::istream& in,
                      const TextSink& write);

}  // namespace tp
