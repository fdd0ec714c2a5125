#include "tp/marked_text.h"

#include <algorithm>

namespace tp {
namespace {

constexpr char kOwn = 0;
constexpr char kInput = 1;

}  // namespace

MarkedText MarkedText::input(std::string text) {
  MarkedText result(std::move(text));
  result.marks_.assign(result.text_.size(), kInput);
  return result;
}

bool MarkedText::has_input(std::size_t begin, std::size_t end) const {
  if (marks_.empty()) return false;
  return marks_.find(kInput, begin) < std::min(end, size());
}

std::size_t MarkedText::run_end(std::size_t begin) const {
  if (marks_.empty()) return size();
  return std::min(marks_.find_first_not_of(marks_[begin], begin), size());
}

void MarkedText::append(std::string_view text, bool is_input) {
  if (is_input || !marks_.empty()) {
    marks_.resize(size(), kOwn);
    marks_.append(text.size(), is_input ? kInput : kOwn);
  }
  text_.append(text);
}

void MarkedText::append(const MarkedText& other, std::size_t begin, std::size_t size) {
  size = std::min(size, other.size() - begin);
  if (other.marks_.empty()) return append(std::string_view(other.text_).substr(begin, size), false);
  marks_.resize(this->size(), kOwn);
  marks_.append(other.marks_, begin, size);
  text_.append(other.text_, begin, size);
}

MarkedText MarkedText::substr(std::size_t begin, std::size_t size) const {
  MarkedText result(text_.substr(begin, size));
  if (!marks_.empty()) result.marks_ = marks_.substr(begin, size);
  return result;
}

MarkedText MarkedText::part(std::string_view view) const {
  return view.empty() ? MarkedText()
                      : substr(static_cast<std::size_t>(view.data() - text_.data()), view.size());
}

bool operator==(const MarkedText& a, const MarkedText& b) {
  if (a.text_ != b.text_) return false;
  if (a.marks_.empty() || b.marks_.empty()) return a.has_input() == b.has_input();
  return a.marks_ == b.marks_;
}

}  // namespace tp
