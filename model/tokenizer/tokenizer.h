// Text to token ids and back, as the tokenizer of a checkpoint does it.
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

// Whether encode() puts the tokenizer's control tokens, such as BOS, around the text.
enum class AddSpecial : std::uint8_t { no, yes };

// Whether decode() leaves control tokens out.
enum class SkipSpecial : std::uint8_t { no, yes };

// The part that makes tokens of pieces of text. Another kind of model is another alternative with the members
// encode(piece, out) and vocabulary().
using TokenModel = std::variant<Bpe, Unigram, SentencePieceModel, RenumberedModel, WordPiece, WordLevel>;

// What a tokenizer is made of. Files of all formats are read to this.
struct TokenizerParts {
  TokenModel model;
  Normalizer normalizer{};
  PreTokenizer pre_tokenizer{};
  AddedTokens added{};
  PostProcessor post_processor{};
  TokenDecoder decoder{};
  std::optional<TokenId> bos{};
  std::optional<TokenId> eos{};
  std::optional<std::string> chat_template{};

  const Vocabulary& vocabulary() const;
  std::optional<TokenId> find(std::string_view token) const;
  bool has_token(TokenId id) const;
};

// Gives the same results as Hugging Face's `tokenizers` library:
//
//   text -> added tokens are cut out -> normalizer -> pre-tokenizer -> model -> control tokens are put around
//   -> ids
//
// Does not change once it is there; all const members may be called by several threads.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);

  // Loads `path`: see model/tokenizer/tokenizer_files.h.
  static Tokenizer load(const std::filesystem::path& path);

  // The ids of a text. Control tokens that are written out in the text are recognised either way. The text
  // may be any bytes: each maximal ill-formed part of UTF-8 counts as U+FFFD. Throws RequestError for a text
  // of 1 GiB and more and for one on which a pattern of the tokenizer needs too many steps.
  std::vector<TokenId> encode(std::string_view text, AddSpecial add_special) const;
  // The same, but input cannot write control tokens: their text is tokenized as other text is. Which tokens
  // these are says AddedToken::is_control. Apart from that marks change nothing: words may cross the borders
  // of input.
  std::vector<TokenId> encode(const MarkedText& text, AddSpecial add_special) const;

  // Two texts as one input, as the tokenizer's template for pairs says, and the types of its tokens. Throws
  // CheckpointError if there is none.
  struct Pair {
    std::vector<TokenId> ids;
    std::vector<std::uint8_t> types;  // [ids]
  };
  Pair encode_pair(std::string_view first, std::string_view second) const;

  // The text of ids: well-formed UTF-8, with U+FFFD for bytes that are not. Throws RequestError for an id
  // that is not in the vocabulary.
  std::string decode(std::span<const TokenId> ids, SkipSpecial skip_special) const;

  // The id of a token, given as it is in the vocabulary ("\u2581the", not " the").
  std::optional<TokenId> token_to_id(std::string_view token) const;
  // The token of an id, as in the vocabulary. Throws RequestError. The view is valid as long as the
  // tokenizer.
  std::string_view id_to_token(TokenId id) const;
  // Whether an id is that of a control token, which SkipSpecial leaves out.
  bool is_special(TokenId id) const;
  // Whether an id is that of a token which input cannot write: see AddedToken::is_control.
  bool is_control(TokenId id) const;
  // The bytes that a token adds to a text amid others; nothing for ids without a token.
  std::string bytes_of(TokenId id) const;

  // The largest id + 1, added tokens included. Models often have a few more rows than this.
  std::size_t vocab_size() const { return vocab_size_; }

  // A model may have rows for more ids than have a token, for the sake of round numbers. From here on ids
  // below `rows` that have none are no error in decode(), but have no text.
  void pad_to(std::size_t rows) { padded_size_ = rows; }

  // Beginning and end of a text, if the tokenizer's configuration names them.
  std::optional<TokenId> bos_id() const { return parts_.bos; }
  std::optional<TokenId> eos_id() const { return parts_.eos; }

  // The Jinja template of tokenizer_config.json, if there is a single one.
  const std::optional<std::string>& chat_template() const { return parts_.chat_template; }

  // A decoder that no token has been pushed to, for decoding ids as they come.
  const TokenDecoder& decoder() const { return parts_.decoder; }
  // Appends the text that the next id makes certain. Throws RequestError for an id that is not in the
  // vocabulary; the decoder is unchanged then.
  void push(TokenId id, SkipSpecial skip_special, TokenDecoder& decoder, std::string& out) const;

 private:
  MarkedText normalized(const MarkedText& text) const;
  void encode_fragment(const MarkedText& text, bool at_start, std::vector<TokenId>& out) const;
  void encode_plain(std::string_view text, bool at_start, bool has_input, std::vector<TokenId>& out) const;
  void encode_piece(std::string_view piece, std::vector<TokenId>& out) const;
  void encode_input_piece(std::string_view piece, std::vector<TokenId>& out) const;
  std::vector<std::size_t> cuts_in_control_texts(std::string_view piece) const;

  TokenizerParts parts_;
  StringSet control_texts_;  // of the control tokens that the model has, too; values are ids
  std::size_t vocab_size_;
  std::size_t padded_size_ = 0;
};

}  // namespace tp
