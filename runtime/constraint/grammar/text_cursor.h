// A position in a text that is being read.
#pragma once

#include "model/tokenizer/text/utf8.h"
#include "tp/internal/require.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tp::constraint {

// Errors call the text `what`, for example "the regular expression".
class TextCursor {
 public:
  TextCursor(std::string_view what, std::string_view text) : what_(what), text_(text) {
    const std::size_t valid = utf8::valid_length(text);
    require<RequestError>(valid == text.size(),
                          "{} is not UTF-8 (expected text, found byte 0x{:02X} at offset {})", what,
                          valid < text.size() ? static_cast<std::uint8_t>(text[valid]) : 0, valid);
  }

  bool at_end() const { return place_ == text_.size(); }
  // The next byte; 0 at the end.
  char peek(std::size_t ahead = 0) const {
    return place_ + ahead < text_.size() ? text_[place_ + ahead] : '\0';
  }
  std::string_view rest() const { return text_.substr(place_); }
  std::size_t place() const { return place_; }
  void skip(std::size_t bytes) { place_ += bytes; }

  bool accept(std::string_view token) {
    if (!rest().starts_with(token)) return false;
    place_ += token.size();
    return true;
  }

  char32_t character() {
    if (at_end()) fail("another character");
    const utf8::Character next = utf8::first_character(rest());
    place_ += next.length;
    return next.code_point;
  }

  // Reads a number of up to `max` digits, if there is one.
  std::optional<std::uint32_t> digits(unsigned base, std::size_t max) {
    std::uint32_t value = 0;
    std::size_t count = 0;
    for (; count < max && digit(peek()) < base; ++count, ++place_) value = value * base + digit(peek());
    if (count == 0) return std::nullopt;
    return value;
  }

  // Reads exactly `count` digits.
  char32_t hex(std::size_t count) {
    const std::size_t begin = place_;
    const std::optional<std::uint32_t> value = digits(16, count);
    if (!value || place_ - begin != count) fail(fmt::format("{} hexadecimal digits", count));
    return *value;
  }

  [[noreturn]] void fail(std::string_view expected, std::string_view advice = "correct it") const {
    const std::string found =
        at_end() ? std::string("its end")
                 : fmt::format("`{}`", rest().substr(0, utf8::first_character(rest()).length));
    throw_error<RequestError>("{}: expected {}, found {} at offset {}; {}", what_, expected, found, place_,
                              advice);
  }
  [[noreturn]] void fail_unsupported(std::string_view what) const {
    throw_error<RequestError>("{}: {} at offset {} is not supported; write it without", what_, what, place_);
  }

 private:
  static unsigned digit(char c) {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
    return 255;
  }

  std::string_view what_;
  std::string_view text_;
  std::size_t place_ = 0;
};

}  // namespace tp::constraint
