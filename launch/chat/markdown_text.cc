#include "launch/chat/markdown_text.h"

#include "model/tokenizer/text/utf8.h"

#include <algorithm>
#include <optional>

namespace tp {
namespace {

constexpr std::string_view kFence = "```";
constexpr std::size_t kLongestSpan = 400;  // bytes that a mark waits for the one that closes it

bool is_word_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

std::size_t run_at(std::string_view text, std::size_t place) {
  const std::size_t end = text.find_first_not_of(text[place], place);
  return std::min(end, text.size()) - place;
}

struct MarkedSpan {
  std::size_t begin;  // first byte between the marks
  std::size_t size;
  std::size_t end;  // after the closing marks
};

enum class Search : std::uint8_t { found, absent, undecided };

// Looks for `marks` equal characters `mark` that close a span, from `place` on.
Search find_close(std::string_view text, std::size_t place, char mark, std::size_t marks, bool is_complete,
                  MarkedSpan& span) {
  span.begin = place;
  // The limit holds for complete lines, too, so that a text is shown alike however it arrives.
  const std::string_view searched = text.substr(0, place + kLongestSpan + 1);
  for (std::size_t i = place; i < searched.size(); ++i) {
    if (text[i] == '`' && mark != '`') {  // code within emphasis
      const std::size_t code_end = searched.find('`', i + 1);
      if (code_end != searched.npos) i = code_end;
      continue;
    }
    if (text[i] != mark) continue;
    const std::size_t run = run_at(text, i);
    const bool is_last = i + run == text.size();
    if (is_last && !is_complete) return Search::undecided;
    const bool closes = mark == '`' || (i > place && text[i - 1] != ' ' &&
                                        (mark == '*' || is_last || !is_word_character(text[i + run])));
    if (run == marks && closes) {
      span.size = i - place;
      span.end = i + run;
      return Search::found;
    }
    i += run - 1;
  }
  return is_complete || text.size() - place > kLongestSpan ? Search::absent : Search::undecided;
}

std::optional<std::size_t> list_mark_size(std::string_view line) {
  if (line.empty()) return std::nullopt;
  if (std::string_view("-*+").find(line[0]) != line.npos) return 1;
  const std::size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  if (digits == 0 || digits > 9) return std::nullopt;
  if (digits == line.size()) return digits;  // a point may follow
  return line[digits] == '.' || line[digits] == ')' ? std::optional(digits + 1) : std::nullopt;
}

}  // namespace

void MarkdownText::add(std::string_view text) {
  rest_ += text;
  advance(false);
}

void MarkdownText::finish() {
  advance(true);
  wrapped_.flush();
}

void MarkdownText::advance(bool is_end) {
  while (!rest_.empty()) {
    const std::size_t newline = rest_.find('\n');
    const bool is_complete = is_end || newline != rest_.npos;
    if (line_ == Line::unknown && !begin_line(rest_.substr(0, newline), is_complete)) return;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    const std::string_view line = std::string_view(rest_).substr(0, end);
    std::size_t shown = end;
    if (line_ == Line::text) {
      shown = show(line, line_style_, is_complete);
    } else if (line_ != Line::dropped) {
      wrapped_.add_unbroken(line, line_ == Line::code && is_styled_ ? kCode : kPlain);
    }
    const bool has_ended = newline != std::string::npos && shown == end;
    if (has_ended && line_ != Line::dropped) wrapped_.add("\n", kPlain);
    rest_.erase(0, shown + (has_ended ? 1 : 0));
    if (!has_ended) return;
    line_ = Line::unknown;
    previous_ = ' ';
  }
}

bool MarkdownText::begin_line(std::string_view line, bool is_complete) {
  line_style_ = kPlain;
  const std::size_t blanks = std::min(line.find_first_not_of(' '), line.size());
  const std::string_view rest = line.substr(blanks);
  if (rest.empty() && !is_complete) return false;
  if (rest.size() < kFence.size() && kFence.starts_with(rest) && !rest.empty() && !is_complete) return false;
  if (rest.starts_with(kFence)) {
    if (!is_complete) return false;  // backticks may follow
    const std::size_t marks = run_at(rest, 0);
    const bool is_open = fence_ != 0;
    const bool has_text = rest.find_first_not_of("` ") != rest.npos;
    const bool is_fence = is_open ? !has_text && marks >= fence_ : rest.find('`', marks) == rest.npos;
    if (is_fence) {
      fence_ = is_open ? 0 : marks;
      line_ = is_styled_ ? Line::dropped : Line::verbatim;
      return true;
    }
  }
  if (fence_ != 0) {
    line_ = Line::code;
    return true;
  }
  if (rest.starts_with('|')) {
    line_ = Line::verbatim;
    return true;
  }
  return begin_text_line(line, is_complete);
}

bool MarkdownText::begin_text_line(std::string_view line, bool is_complete) {
  const std::size_t blanks = std::min(line.find_first_not_of(' '), line.size());
  const std::string_view rest = line.substr(blanks);
  const std::string indent(blanks, ' ');
  const std::size_t hashes = std::min(rest.find_first_not_of('#'), rest.size());
  if (hashes > 0 && hashes <= 6) {
    if (hashes == rest.size() && !is_complete) return false;
    if (is_styled_ && hashes < rest.size() && rest[hashes] == ' ') {
      line_style_ = kBold;
      begin_text("", blanks + hashes + 1, 0);
      return true;
    }
  }
  if (const std::optional<std::size_t> mark = list_mark_size(rest)) {
    const bool is_longer = rest.size() > *mark;
    if (!is_longer && !is_complete) return false;
    if (is_longer && rest[*mark] == ' ') {
      const bool is_bullet = is_styled_ && !is_word_character(rest[0]);
      const std::string shown = is_bullet ? "\u2022" : std::string(rest.substr(0, *mark));
      begin_text(indent + shown + " ", blanks + *mark + 1, blanks + *mark + 1);
      return true;
    }
  }
  begin_text(indent, blanks, blanks);
  return true;
}

void MarkdownText::begin_text(std::string_view marks, std::size_t size, std::size_t indent) {
  line_ = Line::text;
  wrapped_.add_text(marks, line_style_);
  wrapped_.set_indent(indent);
  rest_.erase(0, size);
}

std::size_t MarkdownText::show(std::string_view text, TextStyle style, bool is_complete) {
  std::size_t i = 0;
  while (i < text.size()) {
    const char c = text[i];
    const bool is_mark = is_styled_ && (c == '`' || c == '*' || c == '_');
    if (!is_mark) {
      const utf8::Character character = utf8::first_character(text.substr(i));
      if (character.status == utf8::Status::truncated && !is_complete) return i;
      wrapped_.add(text.substr(i, character.length), style);
      previous_ = c;
      i += character.length;
      continue;
    }
    const std::size_t run = run_at(text, i);
    const bool is_last = i + run == text.size();
    if (is_last && !is_complete) return i;
    const bool opens = !is_last && (c == '`' || (run <= 3 && text[i + run] != ' ' &&
                                                 !is_word_character(previous_) && previous_ != '\\'));
    MarkedSpan span{};
    const Search search = opens ? find_close(text, i + run, c, run, is_complete, span) : Search::absent;
    if (search == Search::undecided) return i;
    if (search == Search::absent) {
      wrapped_.add_text(text.substr(i, run), style);
      i += run;
    } else if (c == '`') {
      wrapped_.add_text(text.substr(span.begin, span.size), style | kCode);
      i = span.end;
    } else {
      previous_ = ' ';
      const TextStyle emphasis = run == 1 ? kItalic : run == 2 ? kBold : kBold | kItalic;
      show(text.substr(span.begin, span.size), style | emphasis, true);
      i = span.end;
    }
    previous_ = text[i - 1];
  }
  return i;
}

}  // namespace tp
