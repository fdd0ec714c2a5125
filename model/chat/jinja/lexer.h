// Splits the text of a template into tokens.
#pragma once

#include "model/chat/jinja/position.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tp::jinja {

// An error in a template's text, with its position.
class SyntaxError : public std::runtime_error {
 public:
  SyntaxError(Position position, const std::string& what) : std::runtime_error(what), position_(position) {}
  Position position() const { return position_; }

 private:
  Position position_;
};

enum class TokenKind : std::uint8_t {
  text,         // text outside tags
  print_begin,  // {{
  print_end,    // }}
  block_begin,  // {%
  block_end,    // %}
  name,
  string,   // value without escapes
  integer,  // digits with prefix
  number,   // with a decimal point or an exponent
  symbol,   // operator or bracket
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string value;
  Position position;
};

// Splits a template into tokens, with the white-space rules of Hugging Face's chat templates. They drop the
// newline after a block (trim_blocks), blanks before a block on its line (lstrip_blocks), and the template's
// last newline. `source` must be well-formed UTF-8. Throws SyntaxError.
std::vector<Token> lex_template(std::string_view source);

}  // namespace tp::jinja
