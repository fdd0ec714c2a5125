#include "model/tokenizer/tokenizer.h"

#include "model/tokenizer/steps/normalized_marks.h"
#include "model/tokenizer/text/utf8.h"
#include "model/tokenizer/tokenizer_files.h"
#include "tp/internal/require.h"

#include <algorithm>

namespace tp {
namespace {

// Positions in a text are 32-bit numbers, and normalizers may lengthen texts.
constexpr std::size_t kMaxTextSize = 1 << 30;

std::string utf8_of(std::string_view bytes) {
  std::string text;
  utf8::append_repaired(text, bytes);
  return text;
}

}  // namespace

const Vocabulary& TokenizerParts::vocabulary() const {
  return std::visit([](const auto& part) -> const Vocabulary& { return part.vocabulary(); }, model);
}

std::optional<TokenId> TokenizerParts::find(std::string_view token) const {
  const std::optional<TokenId> id = added.find(token);
  return id ? id : vocabulary().find(token);
}

bool TokenizerParts::has_token(TokenId id) const {
  return added.by_id(id) != nullptr || vocabulary().find_text(id).has_value();
}

Tokenizer::Tokenizer(TokenizerParts parts)
    : parts_(std::move(parts)), vocab_size_(parts_.vocabulary().size()) {
  for (const AddedToken& token : parts_.added.all()) {
    vocab_size_ = std::max(vocab_size_, static_cast<std::size_t>(token.id) + 1);
    const std::optional<std::string_view> text = parts_.vocabulary().find_text(token.id);
    if (token.is_control() && text && !text->empty())
      control_texts_.insert(*text, static_cast<std::size_t>(token.id));
  }
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) { return Tokenizer(load_tokenizer_parts(path)); }

std::vector<TokenId> Tokenizer::encode(std::string_view text, AddSpecial add_special) const {
  return encode(MarkedText(std::string(text)), add_special);
}

std::vector<TokenId> Tokenizer::encode(const MarkedText& given, AddSpecial add_special) const {
  require<RequestError>(
      given.size() < kMaxTextSize,
      "cannot encode a text of {} bytes: expected less than {}; split it into smaller parts", given.size(),
      kMaxTextSize);
  const bool is_valid = utf8::is_valid(given.text());
  const MarkedText repaired = is_valid ? MarkedText() : given.transformed(utf8_of);
  const MarkedText& text = is_valid ? given : repaired;
  std::vector<TokenId> ids;
  if (add_special == AddSpecial::yes) ids = parts_.post_processor.before;
  for (const Fragment& fragment : parts_.added.split_raw(text)) {
    if (fragment.token)
      ids.push_back(*fragment.token);
    else
      encode_fragment(text.substr(fragment.span.begin, fragment.span.end - fragment.span.begin),
                      fragment.span.begin == 0 ? utf8::first_character(text.text()).length : 0, ids);
  }
  if (add_special == AddSpecial::yes)
    ids.insert(ids.end(), parts_.post_processor.after.begin(), parts_.post_processor.after.end());
  return ids;
}

Tokenizer::Pair Tokenizer::encode_pair(std::string_view first, std::string_view second) const {
  require<CheckpointError>(!parts_.post_processor.pair.empty(),
                           "cannot encode two texts as one: expected a tokenizer whose post_processor has a "
                           "`pair`, found none; use a model for pairs of texts");
  using Kind = PostProcessor::PairPiece::Kind;
  Pair pair;
  for (const PostProcessor::PairPiece& piece : parts_.post_processor.pair) {
    const std::vector<TokenId> ids =
        piece.kind == Kind::token ? std::vector<TokenId>{piece.token}
                                  : encode(piece.kind == Kind::first_text ? first : second, AddSpecial::no);
    pair.ids.insert(pair.ids.end(), ids.begin(), ids.end());
    pair.types.resize(pair.ids.size(), piece.type);
  }
  return pair;
}

// Marks only matter if the normalized text can contain control tokens.
MarkedText Tokenizer::normalized(const MarkedText& text, std::size_t& start) const {
  std::string plain = parts_.normalizer(text.text(), start);
  if (!text.has_input() || !parts_.added.has_normalized_control()) return MarkedText(std::move(plain));
  return with_marks_of(text, std::move(plain), parts_.normalizer);
}

void Tokenizer::encode_fragment(const MarkedText& text, std::size_t start, std::vector<TokenId>& out) const {
  const MarkedText normal = normalized(text, start);
  const bool has_input = text.has_input();
  for (const Fragment& fragment : parts_.added.split_normalized(normal)) {
    if (fragment.token)
      out.push_back(*fragment.token);
    else
      encode_plain(std::string_view(normal.text())
                       .substr(fragment.span.begin, fragment.span.end - fragment.span.begin),
                   start - std::min(start, fragment.span.begin), has_input, out);
  }
}

void Tokenizer::encode_plain(std::string_view text, std::size_t start, bool has_input,
                             std::vector<TokenId>& out) const {
  PreTokens tokens(text, start);
  parts_.pre_tokenizer(tokens);
  for (const Span& piece : tokens.pieces) {
    if (has_input)
      encode_input_piece(tokens.view(piece), out);
    else
      encode_piece(tokens.view(piece), out);
  }
}

void Tokenizer::encode_piece(std::string_view piece, std::vector<TokenId>& out) const {
  std::visit([&](const auto& model) { model.encode(piece, out); }, parts_.model);
}

// Some models (Unigram, BPE with ignore_merges) know the texts of control tokens, and would produce control
// tokens from input. Cuts within these texts prevent this.
void Tokenizer::encode_input_piece(std::string_view piece, std::vector<TokenId>& out) const {
  const auto size_before = static_cast<std::ptrdiff_t>(out.size());
  encode_piece(piece, out);
  const bool has_control = std::any_of(out.begin() + size_before, out.end(), [&](TokenId id) {
    const AddedToken* token = parts_.added.by_id(id);
    return token != nullptr && token->is_control();
  });
  const std::vector<std::size_t> cuts =
      has_control ? cuts_in_control_texts(piece) : std::vector<std::size_t>();
  if (cuts.empty()) return;  // the unknown token is also a control token
  out.resize(static_cast<std::size_t>(size_before));
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    encode_piece(piece.substr(begin, cut - begin), out);
    begin = cut;
  }
  encode_piece(piece.substr(begin), out);
}

// Places after the first character of each control token's text.
std::vector<std::size_t> Tokenizer::cuts_in_control_texts(std::string_view piece) const {
  std::vector<std::size_t> cuts;
  for (std::size_t place = 0; place < piece.size(); ++place) {
    const std::optional<StringSet::Match> control = control_texts_.longest_prefix_of(piece.substr(place));
    if (!control) continue;
    const std::size_t character = utf8::first_character(piece.substr(place)).length;
    if (character < control->length) cuts.push_back(place + character);
  }
  return cuts;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, SkipSpecial skip_special) const {
  TokenDecoder decoder = parts_.decoder;
  std::string text;
  for (const TokenId id : ids) push(id, skip_special, decoder, text);
  decoder.finish(text);
  return text;
}

void Tokenizer::push(TokenId id, SkipSpecial skip_special, TokenDecoder& decoder, std::string& out) const {
  const bool is_padding = id >= 0 && static_cast<std::size_t>(id) < padded_size_ && !parts_.has_token(id);
  if (is_padding || (skip_special == SkipSpecial::yes && is_special(id))) return;
  decoder.push(id_to_token(id), out);
}

std::optional<TokenId> Tokenizer::token_to_id(std::string_view token) const { return parts_.find(token); }

std::string_view Tokenizer::id_to_token(TokenId id) const {
  if (const AddedToken* token = parts_.added.by_id(id)) return token->content;
  const std::optional<std::string_view> text = parts_.vocabulary().find_text(id);
  require<RequestError>(
      text.has_value(),
      "cannot decode token id {}: expected the id of a token, of which the largest is {}; the ids "
      "may come from another model's tokenizer",
      id, static_cast<std::int64_t>(vocab_size_) - 1);
  return *text;
}

bool Tokenizer::is_special(TokenId id) const {
  const AddedToken* token = parts_.added.by_id(id);
  return token != nullptr && token->special;
}

bool Tokenizer::is_control(TokenId id) const {
  const AddedToken* token = parts_.added.by_id(id);
  return token != nullptr && token->is_control();
}

std::string Tokenizer::bytes_of(TokenId id) const {
  return parts_.has_token(id) ? parts_.decoder.bytes_of(id_to_token(id)) : std::string();
}

}  // namespace tp
