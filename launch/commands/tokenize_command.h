#pragma once

#include "launch/common/for_each_line.h"
#include "model/tokenizer/tokenizer.h"

#include <istream>
#include <string>
#include <vector>

namespace tp {

struct TokenizeOptions {
  bool jsonl = false;  // every line is a JSON string
  AddSpecial add_special = AddSpecial::yes;
};

// Formats ids as a JSON list, for commands that print them.
std::string list_of(const std::vector<TokenId>& ids);

// Encodes each line of `in`, which is a text, or with `jsonl` a JSON string. Writes a JSON list of ids per
// line. Throws RequestError with the line's number.
void tokenize_lines(const Tokenizer& tokenizer, const TokenizeOptions& options, std::istream& in,
                    const TextSink& write);

}  // namespace tp
