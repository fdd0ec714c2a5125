// A cursor over the tokens of a template.
#pragma once

#include "model/chat/jinja/lexer.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tp::jinja {

// A position in a template's tokens. Throws SyntaxError for unexpected tokens.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  Token take();
  bool is(TokenKind kind, std::string_view value) const;
  bool is_symbol(std::string_view value) const { return is(TokenKind::symbol, value); }
  bool is_word(std::string_view value) const { return is(TokenKind::name, value); }
  // Whether the token after the current one is this word.
  bool is_word_after(std::string_view value) const;
  bool skip_symbol(std::string_view value);
  bool skip_word(std::string_view value);
  void expect_symbol(std::string_view value);
  void expect_word(std::string_view value);
  void expect(TokenKind kind);
  std::string take_name();
  [[noreturn]] void fail_expecting(std::string_view expected) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace tp::jinja
