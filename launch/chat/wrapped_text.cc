#include "launch/chat/wrapped_text.h"

#include "model/tokenizer/text/unicode.h"
#include "model/tokenizer/text/utf8.h"

#include <algorithm>
#include <utility>

namespace tp {

void WrappedText::add_text(std::string_view text, TextStyle style) {
  for (const auto [code_point, bytes] : utf8::Characters(text)) add(bytes, style);
}

void WrappedText::add(std::string_view character, TextStyle style) {
  constexpr std::size_t kTab = 4;
  if (character == "\n") return end_line();
  if (character == " " || character == "\t") {
    end_word();
    spaces_ += character == " " ? 1 : kTab;
    space_style_ = style;
    return;
  }
  const std::size_t width = unicode::display_width(utf8::first_character(character).code_point);
  // Chinese and Japanese have no spaces: lines may break between any two characters.
  if (width == 2) end_word();
  if (word_.empty() || word_.back().style != style) word_.push_back({"", style});
  word_.back().text += character;
  word_width_ += width;
  // A terminal breaks a word that is longer than a line.
  if (width == 2 || word_width_ >= columns_) end_word();
}

void WrappedText::add_unbroken(std::string_view text, TextStyle style) {
  end_word();
  set_style(style);
  sink_(std::string(std::exchange(spaces_, 0), ' ') + std::string(text));
}

void WrappedText::end_word() {
  if (word_.empty()) return;
  const bool fits = column_ + spaces_ + word_width_ < columns_;
  if (!fits && column_ > indent_) {
    set_style(kPlain);
    sink_("\n" + std::string(indent_, ' '));
    column_ = indent_;
  } else if (spaces_ > 0) {
    set_style(space_style_);
    sink_(std::string(spaces_, ' '));
    column_ += spaces_;
  }
  for (const Piece& piece : word_) {
    set_style(piece.style);
    sink_(piece.text);
  }
  column_ += word_width_;
  if (column_ >= columns_) column_ %= std::max<std::size_t>(1, columns_);
  word_.clear();
  word_width_ = 0;
  spaces_ = 0;
}

void WrappedText::end_line() {
  end_word();
  set_style(kPlain);
  sink_("\n");
  spaces_ = 0;
  column_ = 0;
  indent_ = 0;
}

void WrappedText::flush() {
  end_word();
  set_style(kPlain);
}

void WrappedText::set_style(TextStyle style) {
  if (std::exchange(style_, style) == style) return;
  std::string codes = "\x1b[0";
  if ((style & kBold) != 0) codes += ";1";
  if ((style & kDim) != 0) codes += ";2";
  if ((style & kItalic) != 0) codes += ";3";
  if ((style & kCode) != 0) codes += ";36";
  sink_(codes + "m");
}

}  // namespace tp
