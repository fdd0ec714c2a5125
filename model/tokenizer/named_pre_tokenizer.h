#pragma once

#include "model/tokenizer/pre_tokenizer.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// How a family cuts texts before byte-level BPE.
struct NamedPreTokenizer {
  PreTokenizer pre_tokenizer;
  bool composes = false;       // texts are put into normalization form C before
  bool ignore_merges = false;  // a piece that is a token is not merged: see Bpe::Options
};

// By the name that GGUF files have in `tokenizer.ggml.pre`. Nothing for one that is not known.
std::optional<NamedPreTokenizer> named_pre_tokenizer(std::string_view name);

// "gpt-2, llama-bpe, ...", for errors.
std::string names_of_pre_tokenizers();

// One name of each way to cut texts, that of the most models first.
std::vector<std::string_view> distinct_pre_tokenizers();

}  // namespace tp
