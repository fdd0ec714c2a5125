#pragma once

#include "model/tokenizer/steps/pre_tokenizer.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// How a family cuts texts before BPE.
struct NamedPreTokenizer {
  struct Traits {
    bool composes = false;       // texts are put into normalization form C before
    bool ignore_merges = false;  // a piece that is a token is not merged: see Bpe::Options
    bool adds_bos = false;       // for a file that does not say whether BOS goes before texts
    // Tokens are characters with U+2581 for spaces, not bytes; characters that have none are <0xNN>.
    bool marks_spaces = false;
  };

  PreTokenizer pre_tokenizer;
  Traits traits;
};

// By the name that GGUF files have in `tokenizer.ggml.pre`. Nothing for one that is not known.
std::optional<NamedPreTokenizer> named_pre_tokenizer(std::string_view name);

// The traits of a pre-tokenizer, without its patterns, which take time to compile.
std::optional<NamedPreTokenizer::Traits> pre_tokenizer_traits(std::string_view name);

// Says what is wrong with a name that is not known.
std::string unknown_pre_tokenizer(std::string_view name);

// One name of each way to cut texts for byte-level BPE, that of the most models first.
std::vector<std::string_view> distinct_pre_tokenizers();

}  // namespace tp
