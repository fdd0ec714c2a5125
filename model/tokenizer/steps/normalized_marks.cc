#include "model/tokenizer/steps/normalized_marks.h"

#include "model/tokenizer/text/utf8.h"

#include <optional>

namespace tp {
namespace {

// A noncharacter that normalizers leave unchanged and that the text does not contain.
std::optional<std::string> border_mark_for(const std::string& text) {
  for (char32_t code_point = 0xFDD0; code_point <= 0xFDEF; ++code_point) {
    std::string mark;
    utf8::append(mark, code_point);
    if (text.find(mark) == std::string::npos) return mark;
  }
  return std::nullopt;
}

std::size_t count_of(const std::string& text, const std::string& mark) {
  std::size_t count = 0;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + mark.size()))
    ++count;
  return count;
}

std::string with_borders(const MarkedText& text, const std::string& mark) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.run_end(begin);
    if (begin != 0) out += mark;
    out.append(text.text(), begin, end - begin);
    begin = end;
  }
  return out;
}

// Splits a text at the border marks into runs that alternately are input and are not.
MarkedText without_borders(std::string_view text, const std::string& mark, bool is_input) {
  MarkedText out;
  while (true) {
    const std::size_t end = text.find(mark);
    const std::string_view run = text.substr(0, end);
    if (is_input)
      out.append_input(run);
    else
      out.append(run);
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + mark.size());
    is_input = !is_input;
  }
}

}  // namespace

// Marks the borders of input in the text, normalizes, and finds the marks in the result.
MarkedText with_marks_of(const MarkedText& text, std::string normal, const Normalizer& normalizer) {
  if (const std::optional<std::string> mark = border_mark_for(text.text())) {
    const std::string given = with_borders(text, *mark);
    const std::string result = normalizer(given);
    // A normalizer may remove or double the marks.
    if (count_of(result, *mark) == count_of(given, *mark)) {
      MarkedText marked = without_borders(result, *mark, text.has_input(0, 1));
      if (marked.text() == normal) return marked;
    }
  }
  return MarkedText::input(std::move(normal));
}

}  // namespace tp
