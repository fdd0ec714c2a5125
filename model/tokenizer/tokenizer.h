// Converts text to token ids and back, like the tokenizer of a checkpoint.
#pragma once

#include "model/tokenizer/models/bpe.h"
#include "model/tokenizer/models/renumbered_model.h"
#include "model/tokenizer/models/sentencepiece_model.h"
#include "model/tokenizer/models/unigram.h"
#include "model/tokenizer/models/word_level.h"
#include "model/tokenizer/models/word_piece.h"
#include "model/tokenizer/steps/added_tokens.h"
#include "model/tokenizer/steps/normalizer.h"
#include "model/tokenizer/steps/post_processor.h"
#include "model/tokenizer/steps/pre_tokenizer.h"
#include "model/tokenizer/steps/token_decoder.h"
#include "tp/marked_text.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tp {

// Whether encode() adds the tokenizer's control tokens, such as BOS, around the text.
enum class AddSpecial : std::uint8_t { no, yes };

// Whether decode() omits control tokens.
enum class SkipSpecial : std::uint8_t { no, yes };

// The part that converts pieces of text to tokens. To add a model, add an alternative with the members
// encode(piece, out) and vocabulary().
using TokenModel = std::variant<Bpe, Unigram, SentencePieceModel, RenumberedModel, WordPiece, WordLevel>;

// The parts of a tokenizer. The readers of all file formats produce them.
struct TokenizerParts {
  TokenModel model;
  Normalizer normalizer{};
  PreTokenizer pre_tokenizer{};
  AddedTokens added{};
  PostProcessor post_processor{};
  TokenDecoder decoder{};
  std::optional<TokenId> bos{};
  std::optional<TokenId> eos{};
  // Whether added tokens with the flag `normalized` are found in normalized text. SentencePiece's format
  // finds all added tokens in unprocessed text.
  bool normalizes_added = true;

  const Vocabulary& vocabulary() const;
  std::optional<TokenId> find(std::string_view token) const;
  bool has_token(TokenId id) const;
};

// Gives the same results as Hugging Face's `tokenizers` library:
//
//   text -> added tokens are cut out -> normalizer -> pre-tokenizer -> model -> control tokens are added ->
//   ids
//
// Immutable after its setup; all const members are thread-safe.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);

  // Loads `path`: see model/tokenizer/tokenizer_files.h.
  static Tokenizer load(const std::filesystem::path& path);

  // The ids of a text. Control tokens in the text are always recognised. The text may contain any bytes: each
  // maximal ill-formed part counts as U+FFFD. Throws RequestError if the text has 1 GiB or more, or a pattern
  // of the tokenizer needs too many steps.
  std::vector<TokenId> encode(std::string_view text, AddSpecial add_special) const;
  // As above, but text marked as input cannot write control tokens (see AddedToken::is_control); it is
  // tokenized as ordinary text. Otherwise marks change nothing: words may cross the borders of input.
  std::vector<TokenId> encode(const MarkedText& text, AddSpecial add_special) const;

  // Encodes two texts as one input by the tokenizer's pair template. Throws CheckpointError if the tokenizer
  // has no such template.
  struct Pair {
    std::vector<TokenId> ids;
    std::vector<std::uint8_t> types;  // [ids]
  };
  Pair encode_pair(std::string_view first, std::string_view second) const;

  // The text of ids: well-formed UTF-8, with U+FFFD for other bytes. Throws RequestError for an id outside
  // the vocabulary.
  std::string decode(std::span<const TokenId> ids, SkipSpecial skip_special) const;

  // The id of a token, in its spelling in the vocabulary ("\u2581the", not " the").
  std::optional<TokenId> token_to_id(std::string_view token) const;
  // The token of an id, in its spelling in the vocabulary. Throws RequestError. The view is valid as long as
  // the tokenizer.
  std::string_view id_to_token(TokenId id) const;
  // Whether the id is a control token, which SkipSpecial omits.
  bool is_special(TokenId id) const;
  // Whether the id is a token that input cannot write: see AddedToken::is_control.
  bool is_control(TokenId id) const;
  // The bytes that a token adds amid other tokens; empty for ids without a token.
  std::string bytes_of(TokenId id) const;

  // The largest id + 1, including added tokens. Models often have a few more rows.
  std::size_t vocab_size() const { return vocab_size_; }

  // Models may have more rows than tokens, to get round numbers. After this call, decode() accepts ids below
  // `rows` without a token, as empty text.
  void pad_to(std::size_t rows) { padded_size_ = rows; }

  // Begin and end tokens of a text, if the tokenizer's configuration names them.
  std::optional<TokenId> bos_id() const { return parts_.bos; }
  std::optional<TokenId> eos_id() const { return parts_.eos; }

  // An unused decoder, for decoding ids as they arrive.
  const TokenDecoder& decoder() const { return parts_.decoder; }
  // Appends the text that the next id makes final. Throws RequestError for an id outside the vocabulary, and
  // then leaves the decoder unchanged.
  void push(TokenId id, SkipSpecial skip_special, TokenDecoder& decoder, std::string& out) const;

 private:
  // `start`: see Normalizer and PreTokens.
  MarkedText normalized(const MarkedText& text, std::size_t& start) const;
  void encode_fragment(const MarkedText& text, std::size_t start, std::vector<TokenId>& out) const;
  void encode_plain(std::string_view text, std::size_t start, bool has_input,
                    std::vector<TokenId>& out) const;
  void encode_piece(std::string_view piece, std::vector<TokenId>& out) const;
  void encode_input_piece(std::string_view piece, std::vector<TokenId>& out) const;
  std::vector<std::size_t> cuts_in_control_texts(std::string_view piece) const;

  TokenizerParts parts_;
  StringSet control_texts_;  // texts of control tokens that the model also knows; values are ids
  std::size_t vocab_size_;
  std::size_t padded_size_ = 0;
};

}  // namespace tp
