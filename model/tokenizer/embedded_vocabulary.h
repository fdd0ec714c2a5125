// A vocabulary in the form of formats other than tokenizer.json: lists by id, and the name of a scheme. GGUF
// files store it in their metadata.
#pragma once

#include "model/tokenizer/text/token_type.h"
#include "model/tokenizer/tokenizer.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tp {

struct EmbeddedVocabulary {
  enum class Scheme : std::uint8_t {
    listed_merges,      // GPT-2: `merges` and `pre_tokenizer`. GGUF: "gpt2"
    sentencepiece_bpe,  // Llama 2: `scores`, byte fallback, spaces as U+2581. GGUF: "llama"
    unigram,            // XLM-RoBERTa: `scores`, `character_map`, spaces as U+2581. GGUF: "t5"
    longest_match,      // RWKV: bytes in the byte-level alphabet. GGUF: "rwkv", with escaped bytes
    word_piece,         // BERT in lower case: tokens that begin a word begin with U+2581. GGUF: "bert"
  };

  Scheme scheme = Scheme::listed_merges;
  std::vector<std::string> tokens{};  // [tokens], indexed by id
  std::vector<TokenType> types{};     // [tokens], or empty: all are normal
  // [tokens]. sentencepiece_bpe: greater scores merge first; unigram: log-probabilities.
  std::vector<float> scores{};
  std::vector<std::string> merges{};  // listed_merges: "left right", in the order of merging
  // listed_merges: leaves out the only merge if it joins two characters to no token. Converters to GGUF write
  // it for a vocabulary without merges, and llama.cpp takes its result apart again. In another file it is a
  // sign of damage.
  bool ignores_lone_merge = false;
  std::vector<TokenId> strip_left{};    // added tokens that include the white space on their left
  std::vector<TokenId> strip_right{};   // added tokens that include the white space on their right
  std::string pre_tokenizer = "gpt-2";  // listed_merges: see named_pre_tokenizer.h
  bool add_space_prefix = true;         // sentencepiece_bpe, unigram: adds a space before a text
  bool collapses_spaces = true;         // unigram: a run of spaces counts as one
  std::string character_map{};          // unigram: see PrecompiledMap; empty: no map
  bool add_bos = false;                 // encode() puts `bos` before a text, and `eos` after it
  bool add_eos = false;
  std::optional<TokenId> bos{};
  std::optional<TokenId> eos{};
  std::optional<TokenId> unknown{};
  // The number of `eos` tokens between two texts of one input; 0: the vocabulary joins no texts.
  std::size_t pair_separators = 0;
  std::optional<std::string> chat_template{};
  std::optional<std::string> tool_template{};  // chat template for conversations with tools
};

// Whether a token of the vocabulary is found in unprocessed text.
bool is_added(const EmbeddedVocabulary& vocabulary, std::size_t id);

// `source` names the file in errors. Throws CheckpointError for lists of different lengths, ids without a
// token, merges of unknown tokens, and unknown pre-tokenizers.
TokenizerParts parts_from_vocabulary(const EmbeddedVocabulary& vocabulary, const std::string& source);

}  // namespace tp
