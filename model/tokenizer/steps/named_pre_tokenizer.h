#pragma once

#include "model/tokenizer/steps/pre_tokenizer.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// A family's way to cut texts before BPE.
struct NamedPreTokenizer {
  struct Traits {
    bool composes = false;       // texts are first converted to normalization form C
    bool ignore_merges = false;  // a piece that is itself a token is not merged: see Bpe::Options
    bool adds_bos = false;       // default for files that do not say whether BOS precedes texts
    // Tokens contain characters, with U+2581 for spaces, not bytes. Characters without a token become <0xNN>.
    bool marks_spaces = false;
  };

  PreTokenizer pre_tokenizer;
  Traits traits;
};

// Finds a pre-tokenizer by its name in `tokenizer.ggml.pre` of GGUF files; nullopt for an unknown name.
std::optional<NamedPreTokenizer> named_pre_tokenizer(std::string_view name);

// The traits of a pre-tokenizer without its patterns, whose compilation takes time.
std::optional<NamedPreTokenizer::Traits> pre_tokenizer_traits(std::string_view name);

// The error message for an unknown name.
std::string unknown_pre_tokenizer(std::string_view name);

// One name for each distinct way to cut texts for byte-level BPE, the most frequent way first.
std::vector<std::string_view> distinct_pre_tokenizers();

}  // namespace tp
