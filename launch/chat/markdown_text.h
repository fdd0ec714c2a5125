#pragma once

#include "launch/chat/wrapped_text.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tp {

// Shows Markdown on a terminal while it comes: headings and bold text bold, emphasis italic, code in colour,
// and lists with bullets and hanging indents. Everything else appears as it is written, also a mark of
// emphasis that nothing closes. Lines of code and tables are never broken.
class MarkdownText {
 public:
  enum class Marks : std::uint8_t { styled, kept };

  // `kept`: text keeps its marks, because the terminal shows no styles. `wrapped` must outlive it.
  MarkdownText(WrappedText& wrapped, Marks marks) : wrapped_(wrapped), is_styled_(marks == Marks::styled) {}

  // Shows what is complete of the text so far. `text` has no control characters except newlines and tabs.
  void add(std::string_view text);
  // Shows the rest.
  void finish();

 private:
  enum class Line : std::uint8_t { unknown, text, code, verbatim, dropped };

  void advance(bool is_end);
  // Sets `line_` by the first characters of a line, and removes its marks. Returns false if these characters
  // are not complete.
  bool begin_line(std::string_view line, bool is_complete);
  bool begin_text_line(std::string_view line, bool is_complete);
  // Shows the marks of a line, followed by its text.
  void begin_text(std::string_view marks, std::size_t size, std::size_t indent);
  // Shows text of a line, and returns the number of bytes. The rest depends on what follows.
  std::size_t show(std::string_view text, TextStyle style, bool is_complete);

  WrappedText& wrapped_;
  bool is_styled_;
  std::string rest_{};  // text of one line that is not shown yet
  Line line_ = Line::unknown;
  TextStyle line_style_ = kPlain;
  char previous_ = ' ';    // before rest_
  std::size_t fence_ = 0;  // backticks of the fence before this code; 0: text
};

}  // namespace tp
