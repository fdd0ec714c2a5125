#pragma once

#include <string>

namespace tp {

// An Oniguruma pattern that matches runs of characters of one script, like the pre-tokenizer UnicodeScripts
// of the `tokenizers` library: Han, Hiragana and Katakana count as one script. Spaces and characters without
// a script belong to the preceding run, and to no run at the start of a text.
std::string script_runs();

}  // namespace tp
