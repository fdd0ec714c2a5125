#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// How a character looks on a terminal: a set of these bits.
using TextStyle = std::uint8_t;
inline constexpr TextStyle kPlain = 0;
inline constexpr TextStyle kBold = 1;
inline constexpr TextStyle kItalic = 2;
inline constexpr TextStyle kCode = 4;
inline constexpr TextStyle kDim = 8;

// Breaks lines of text between words, so that a terminal doesn't break them within words. It passes each word
// on once the word is complete.
class WrappedText {
 public:
  using Sink = std::function<void(std::string_view)>;

  // `columns`: width of the terminal.
  WrappedText(std::size_t columns, Sink sink) : columns_(columns), sink_(std::move(sink)) {}

  // Adds a character, which must not be a control character other than a newline or a tab.
  void add(std::string_view character, TextStyle style);
  void add_text(std::string_view text, TextStyle style);
  // Adds a part of a line that must not be broken, such as one of a program or a table.
  void add_unbroken(std::string_view text, TextStyle style);
  // Columns that begin the lines into which the current one breaks.
  void set_indent(std::size_t columns) { indent_ = columns; }
  // Passes the last word on.
  void flush();

 private:
  struct Piece {
    std::string text;
    TextStyle style;
  };

  void end_line();
  void end_word();
  void set_style(TextStyle style);

  std::size_t columns_;
  Sink sink_;
  std::vector<Piece> word_{};
  std::size_t word_width_ = 0;  // columns
  std::size_t spaces_ = 0;      // before the word
  TextStyle space_style_ = kPlain;
  std::size_t column_ = 0;  // the cursor's
  std::size_t indent_ = 0;
  TextStyle style_ = kPlain;  // the terminal's
};

}  // namespace tp
