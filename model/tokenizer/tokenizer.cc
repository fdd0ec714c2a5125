#include "model/tokenizer/tokenizer.h"

#include "model/tokenizer/tokenizer_files.h"
#include "model/tokenizer/utf8.h"
#include "tp/internal/require.h"

#include <algorithm>

namespace tp {
namespace {

// Positions in a text are 32-bit numbers, and normalizers make texts longer.
constexpr std::size_t kMaxTextSize = 1 << 30;

}  // namespace

const Vocabulary& TokenizerParts::vocabulary() const {
  return std::visit([](const auto& part) -> const Vocabulary& { return part.vocabulary(); }, model);
}

std::optional<TokenId> TokenizerParts::find(std::string_view token) const {
  const std::optional<TokenId> id = added.find(token);
  return id ? id : vocabulary().find(token);
}

bool TokenizerParts::has_token(TokenId id) const {
  return added.by_id(id) != nullptr || vocabulary().text_of(id).has_value();
}

Tokenizer::Tokenizer(TokenizerParts parts)
    : parts_(std::move(parts)), vocab_size_(parts_.vocabulary().size()) {
  for (const AddedToken& token : parts_.added.all())
    vocab_size_ = std::max(vocab_size_, static_cast<std::size_t>(token.id) + 1);
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) { return Tokenizer(load_tokenizer_parts(path)); }

std::vector<TokenId> Tokenizer::encode(std::string_view text, AddSpecial add_special) const {
  require<RequestError>(
      text.size() < kMaxTextSize,
      "cannot encode a text of {} bytes: expected less than {}; split it into smaller parts", text.size(),
      kMaxTextSize);
  std::string repaired;
  if (!utf8::is_valid(text)) {
    utf8::append_repaired(repaired, text);
    text = repaired;
  }
  std::vector<TokenId> ids;
  if (add_special == AddSpecial::yes) ids = parts_.post_processor.before;
  for (const Fragment& fragment : parts_.added.split_raw(text)) {
    if (fragment.token)
      ids.push_back(*fragment.token);
    else
      encode_fragment(text.substr(fragment.span.begin, fragment.span.end - fragment.span.begin),
                      fragment.span.begin == 0, ids);
  }
  if (add_special == AddSpecial::yes)
    ids.insert(ids.end(), parts_.post_processor.after.begin(), parts_.post_processor.after.end());
  return ids;
}

void Tokenizer::encode_fragment(std::string_view text, bool at_start, std::vector<TokenId>& out) const {
  const std::string normalized = parts_.normalizer(std::string(text));
  for (const Fragment& fragment : parts_.added.split_normalized(normalized)) {
    if (fragment.token)
      out.push_back(*fragment.token);
    else
      encode_plain(
          std::string_view(normalized).substr(fragment.span.begin, fragment.span.end - fragment.span.begin),
          at_start && fragment.span.begin == 0, out);
  }
}

void Tokenizer::encode_plain(std::string_view text, bool at_start, std::vector<TokenId>& out) const {
  PreTokens tokens(text, at_start);
  parts_.pre_tokenizer(tokens);
  std::visit(
      [&](const auto& model) {
        for (const Span& piece : tokens.pieces) model.encode(tokens.view(piece), out);
      },
      parts_.model);
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
  const std::optional<std::string_view> text = parts_.vocabulary().text_of(id);
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

}  // namespace tp
