// Splits the text of a template into tokens.
#pragma once

#include "model/chat/jinja/position.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tp::jinja {

// What is wrong with the text of a template, and where.
class SyntaxError : public std::runtime_error {
 public:
  SyntaxError(Position position, const std::string& what) : std::runtime_error(what), position_(position) {}
  Position position() const { return position_; }

 private:
  Position position_;
};

enum class TokenKind : std::uint8_t {
  text,         // outside of tags
  print_begin,  // {{
  print_end,    // }}
  block_begin,  // {%
  block_end,    // %}
  name,
  string,   // its value, escapes undone
  integer,  // its digits, prefix included
  number,   // with a point or an exponent
  symbol,   // an operator or a bracket
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string value;
  Position position;
};

// With the white-space rules of Hugging Face's chat templates: a newline after a block is dropped
// (trim_blocks), blanks before it on its line too (lstrip_blocks), and the last newline of the template.
// `source` is well-formed UTF-8. Throws SyntaxError.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace tp::jinja
