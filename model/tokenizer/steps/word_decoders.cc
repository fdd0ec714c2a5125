#include "model/tokenizer/steps/word_decoders.h"

#include <array>
#include <utility>

namespace tp {
namespace {

std::string with_replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  std::size_t at = what.empty() ? std::string_view::npos : text.find(what);
  for (; at != std::string_view::npos; at = text.find(what)) {
    out.append(text.substr(0, at)).append(by);
    text.remove_prefix(at + what.size());
  }
  return out.append(text);
}

// The `tokenizers` library's replacements in English words that were cut at punctuation, in its order.
std::string cleaned_up_english(std::string text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kReplacements = {
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [what, by] : kReplacements) text = with_replaced(text, what, by);
  return text;
}

}  // namespace

void WordPieceDecoder::push(std::string_view token, TokenTexts& out) {
  std::string text(token);
  if (!is_first_ && text.starts_with(prefix_))
    text.erase(0, prefix_.size());
  else if (!is_first_)
    text = ' ' + text;
  is_first_ = false;
  out.push_back(cleans_up_ ? cleaned_up_english(std::move(text)) : std::move(text));
}

void WordEndDecoder::push(std::string_view token, TokenTexts& out) {
  if (pending_) out.push_back(with_replaced(*pending_, suffix_, " "));
  pending_.reset();
  if (token.find(suffix_) == std::string_view::npos)
    out.emplace_back(token);
  else
    pending_ = token;
}

// The word is complete, but a space may follow it.
void WordEndDecoder::flush(TokenTexts& out) {
  if (!pending_) return;
  const bool ends_word = pending_->ends_with(suffix_);
  finish(out);
  if (ends_word) pending_ = suffix_;
}

void WordEndDecoder::finish(TokenTexts& out) {
  if (pending_) out.push_back(with_replaced(*pending_, suffix_, ""));
  pending_.reset();
}

std::string WordEndDecoder::bytes_of(std::string_view token) const {
  return with_replaced(token, suffix_, " ");
}

void CtcDecoder::push(std::string_view token, TokenTexts& out) {
  if (previous_ == token) return;
  previous_ = token;
  std::string text = with_replaced(token, padding_, "");
  if (cleans_up_) text = with_replaced(cleaned_up_english(std::move(text)), delimiter_, " ");
  if (!text.empty()) out.push_back(std::move(text));
}

}  // namespace tp
