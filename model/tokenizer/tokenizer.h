// Text to token ids and back, as the tokenizer of a checkpoint does it.
#pragma once

#include "model/tokenizer/added_tokens.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/post_processor.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/token_decoder.h"
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
using TokenModel = std::variant<Bpe>;

// A tokenizer in the format of Hugging Face's `tokenizers` library (tokenizer.json), with the same results:
//
//   text -> added tokens are cut out -> normalizer -> pre-tokenizer -> model -> control tokens are put around
//   -> ids
//
// Does not change once loaded; all const members may be called by several threads.
class Tokenizer {
 public:
  // Loads `path`, a tokenizer.json or a folder that holds one. tokenizer_config.json and
  // special_tokens_map.json beside it are read for the names of BOS and EOS and for the chat template. Throws
  // CheckpointError for files that are missing, damaged, or use parts of the format that tp-infer does not
  // support.
  static Tokenizer load(const std::filesystem::path& path);

  // The ids of a text. Control tokens that are written out in the text are recognised either way. The text
  // may be any bytes: each maximal ill-formed part of UTF-8 counts as U+FFFD. Throws RequestError for a text
  // of 1 GiB and more and for one on which a pattern of the tokenizer needs too many steps.
  std::vector<TokenId> encode(std::string_view text, AddSpecial add_special) const;

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

  // The largest id + 1, added tokens included. Models often have a few more rows than this.
  std::size_t vocab_size() const { return vocab_size_; }

  // A model may have rows for more ids than have a token, for the sake of round numbers. From here on ids
  // below `rows` that have none are no error in decode(), but have no text.
  void pad_to(std::size_t rows) { padded_size_ = rows; }

  // Beginning and end of a text, if the tokenizer's configuration names them.
  std::optional<TokenId> bos_id() const { return bos_id_; }
  std::optional<TokenId> eos_id() const { return eos_id_; }

  // The Jinja template of tokenizer_config.json, if there is a single one.
  const std::optional<std::string>& chat_template() const { return chat_template_; }

  // A decoder that no token has been pushed to, for decoding ids as they come.
  const TokenDecoder& decoder() const { return decoder_; }
  // Appends the text that the next id makes certain. Throws RequestError for an id that is not in the
  // vocabulary; the decoder is unchanged then.
  void push(TokenId id, SkipSpecial skip_special, TokenDecoder& decoder, std::string& out) const;

 private:
  explicit Tokenizer(const JsonNode& json);

  void check_added_tokens(const JsonNode& json) const;
  bool has_token(TokenId id) const;
  const Vocabulary& model_vocabulary() const;
  void read_config(const std::filesystem::path& folder);
  void read_special_tokens(const JsonNode& json);
  void apply_bos_and_eos_flags(const JsonNode& json);
  void encode_fragment(std::string_view text, bool at_start, std::vector<TokenId>& out) const;
  void encode_plain(std::string_view text, bool at_start, std::vector<TokenId>& out) const;

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  TokenModel model_;
  AddedTokens added_;
  PostProcessor post_processor_;
  TokenDecoder decoder_;
  std::size_t vocab_size_ = 0;
  std::size_t padded_size_ = 0;
  std::optional<TokenId> bos_id_;
  std::optional<TokenId> eos_id_;
  std::optional<std::string> chat_template_;
};

}  // namespace tp
