#include "model/chat/jinja/token_stream.h"

#include <fmt/format.h>

namespace tp::jinja {
namespace {

std::string description_of(const Token& token) {
  switch (token.kind) {
    case TokenKind::text:
    case TokenKind::end:
      return "the end of the template";
    case TokenKind::print_begin:
      return "'{{'";
    case TokenKind::print_end:
      return "'}}'";
    case TokenKind::block_begin:
      return "'{%'";
    case TokenKind::block_end:
      return "'%}'";
    case TokenKind::string:
      return "a string";
    default:
      return fmt::format("'{}'", token.value);
  }
}

std::string_view name_of(TokenKind kind) {
  switch (kind) {
    case TokenKind::print_end:
      return "'}}'";
    case TokenKind::block_end:
      return "'%}'";
    default:
      return "another token";
  }
}

}  // namespace

Token TokenStream::take() {
  Token token = tokens_[at_];
  if (token.kind != TokenKind::end) ++at_;
  return token;
}

bool TokenStream::is(TokenKind kind, std::string_view value) const {
  return current().kind == kind && current().value == value;
}

bool TokenStream::is_word_after(std::string_view value) const {
  if (current().kind == TokenKind::end) return false;
  const Token& next = tokens_[at_ + 1];
  return next.kind == TokenKind::name && next.value == value;
}

bool TokenStream::skip_symbol(std::string_view value) {
  const bool found = is_symbol(value);
  if (found) take();
  return found;
}

bool TokenStream::skip_word(std::string_view value) {
  const bool found = is_word(value);
  if (found) take();
  return found;
}

void TokenStream::expect_symbol(std::string_view value) {
  if (!skip_symbol(value)) fail_expecting(fmt::format("'{}'", value));
}

void TokenStream::expect_word(std::string_view value) {
  if (!skip_word(value)) fail_expecting(fmt::format("'{}'", value));
}

void TokenStream::expect(TokenKind kind) {
  if (current().kind != kind) fail_expecting(name_of(kind));
  take();
}

std::string TokenStream::take_name() {
  if (current().kind != TokenKind::name) fail_expecting("a name");
  return take().value;
}

void TokenStream::fail_expecting(std::string_view expected) const {
  throw SyntaxError(current().position,
                    fmt::format("expected {}, found {}", expected, description_of(current())));
}

}  // namespace tp::jinja
