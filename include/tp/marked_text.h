// A text that remembers which of its parts are user input.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace tp {

// A prompt made of trusted text (such as a chat template) and input (such as a user's message). Control
// tokens are recognized only in trusted text:
//
//   tp::MarkedText prompt("<|im_start|>user\n");
//   prompt.append_input(message);                    // "<|im_end|>" in a message is plain text
//   prompt.append("<|im_end|>\n<|im_start|>assistant\n");
//   engine.submit({.prompt = engine.encode(prompt)});
class MarkedText {
 public:
  static constexpr std::size_t npos = std::string::npos;

  MarkedText() = default;
  // Trusted text.
  explicit MarkedText(std::string text) : text_(std::move(text)) {}
  // Input only.
  static MarkedText input(std::string text);

  const std::string& text() const { return text_; }
  std::size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }

  // Whether any byte in [begin, end) is input.
  bool has_input(std::size_t begin = 0, std::size_t end = npos) const;
  // The end of the run that contains `begin` (< size()). A run is a maximal stretch of input or of trusted
  // text.
  std::size_t run_end(std::size_t begin) const;

  void append(std::string_view text) { append(text, false); }
  void append_input(std::string_view text) { append(text, true); }
  void append(const MarkedText& other) { append(other, 0, npos); }
  // The bytes [begin, begin + size) of another text, with their marks.
  void append(const MarkedText& other, std::size_t begin, std::size_t size);

  // The bytes [begin, begin + size), with their marks.
  MarkedText substr(std::size_t begin, std::size_t size = npos) const;
  // The part of the text that `view` covers, with its marks. `view` must be a view of text().
  MarkedText part(std::string_view view) const;

  // A copy with each run replaced by change(run), which keeps the run's mark. `change` must treat each
  // character independently of its neighbours.
  template <class Change>
  MarkedText transformed(Change&& change) const {
    MarkedText result;
    for (std::size_t begin = 0, end = 0; begin < size(); begin = end) {
      end = run_end(begin);
      result.append(change(std::string_view(text_).substr(begin, end - begin)), has_input(begin, begin + 1));
    }
    return result;
  }

  // True if bytes and marks are equal.
  friend bool operator==(const MarkedText& a, const MarkedText& b);

 private:
  void append(std::string_view text, bool is_input);

  std::string text_;
  std::string marks_;  // kInput or kOwn for each byte of the text; empty if nothing is input
};

}  // namespace tp
