#pragma once

#include <string>

namespace tp {

// A pattern of Oniguruma's dialect that matches runs of characters of one script, as the pre-tokenizer
// UnicodeScripts of the `tokenizers` library has them: Han, Hiragana and Katakana are one script; spaces and
// characters without a script belong to the run before them, and to none at the start of a text.
std::string script_runs();

}  // namespace tp
