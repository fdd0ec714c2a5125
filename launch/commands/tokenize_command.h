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

// How commands print ids: as a JSON list.
std::string list_of(const std::vector<TokenId>& ids);

// What the command does with its input: writes a JSON list of ids for every line, which is a text or, with
// `jsonl`, the JSON string of one. Throws RequestError with the number of the line.
void tokenize_lines(const Tokenizer& tokenizer, const TokenizeOptions& options, std::istream& in,
                    const TextSink& write);

}  // namespace tp
