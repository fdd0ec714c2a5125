#pragma once

#include "launch/common/input_buffer.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tp {

// Reads keys from a terminal, one character at a time.
class TerminalKeys {
 public:
  enum class Event : std::uint8_t { key, interrupted, terminal_changed, end };

  // Terminals put these sequences around pasted text if the program has enabled this.
  static constexpr std::string_view kPasteBegin = "\x1b[200~";
  static constexpr std::string_view kPasteEnd = "\x1b[201~";

  // Passes only the keys' escape sequences for which `is_known` returns true.
  explicit TerminalKeys(std::function<bool(std::string_view sequence)> is_known)
      : is_known_(std::move(is_known)) {}

  // Waits for the next key. Replaces bytes that aren't UTF-8 with U+FFFD.
  Event next(char32_t& key);

  // Waits for the rest of the pasted text and returns it with '\n' as line ends. An interruption ends the
  // text, too.
  std::string paste();

  // Takes Enter if it is the next key, and drops keys without a character before it. Does not wait.
  bool take_enter();

 private:
  // Drops the next escape sequence if it is complete and unknown.
  bool drop_sequence();
  // Takes a character if all of its bytes have arrived.
  bool take_character(char32_t& key);

  std::function<bool(std::string_view)> is_known_;
  InputBuffer input_;
  std::size_t passing_ = 0;  // bytes of a known sequence that next() has not returned yet
};

}  // namespace tp
