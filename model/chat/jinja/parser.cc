#include "model/chat/jinja/parser.h"

#include "model/chat/jinja/expression_parser.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tp::jinja {
namespace {

using Words = std::initializer_list<std::string_view>;

constexpr std::size_t kMaxDepth = 100;  // nested blocks

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(lex_template(source)), expressions_(tokens_) {}

  Body run() { return parse_body({}); }

 private:
  // Parses up to a block that begins with one of the words, which is then the current token. Without words,
  // parses to the end of the template.
  Body parse_body(Words ends) {
    const Position begin = tokens_.current().position;
    if (++depth_ > kMaxDepth)
      throw SyntaxError(begin, fmt::format("blocks are nested deeper than {} levels", kMaxDepth));
    Body body;
    while (tokens_.current().kind != TokenKind::end) {
      const Token token = tokens_.take();
      if (token.kind == TokenKind::text) {
        body.push_back({token.position, Text{token.value}});
      } else if (token.kind == TokenKind::print_begin) {
        body.push_back({token.position, Print{expressions_.parse_tuple()}});
        tokens_.expect(TokenKind::print_end);
      } else {
        const bool is_end = std::any_of(ends.begin(), ends.end(),
                                        [&](std::string_view word) { return tokens_.is_word(word); });
        if (is_end) {
          --depth_;
          return body;
        }
        const Position position = tokens_.current().position;
        body.push_back({position, parse_statement(position, tokens_.take_name())});
      }
    }
    if (ends.size() != 0)
      throw SyntaxError(begin, fmt::format("the block before this has no {}", fmt::join(ends, " or ")));
    --depth_;
    return body;
  }

  // Like parse_body, and skips the word and the end of its block.
  Body parse_body_to(std::string_view end) {
    Body body = parse_body({end});
    tokens_.expect_word(end);
    tokens_.expect(TokenKind::block_end);
    return body;
  }

  // Parses the body of a block in which `break` is an error.
  Body parse_closed_body(std::string_view end) {
    const std::size_t loops = std::exchange(loops_, 0);
    Body body = parse_body_to(end);
    loops_ = loops;
    return body;
  }

  void end_of_block() { tokens_.expect(TokenKind::block_end); }

  Statement::Node parse_statement(const Position& position, const std::string& word) {
    if (word == "if") return parse_if();
    if (word == "for") return parse_for();
    if (word == "set") return parse_set();
    if (word == "macro") return parse_macro();
    if (word == "call") return parse_call(position);
    if (word == "filter") return parse_filter();
    if (word == "with") return parse_with();
    if (word == "generation") return parse_generation();
    if (word == "break" || word == "continue") return parse_jump(position, word);
    throw SyntaxError(position, fmt::format("chat templates may not use the statement '{}' here", word));
  }

  Statement::Node parse_if() {
    If statement;
    ExpressionPtr condition = expressions_.parse_tuple();
    end_of_block();
    while (true) {
      statement.branches.emplace_back(std::move(condition), parse_body({"elif", "else", "endif"}));
      const std::string word = tokens_.take_name();
      if (word == "endif") break;
      const bool is_last = statement.branches.back().first == nullptr;
      if (is_last) tokens_.fail_expecting("'endif' after 'else'");
      condition = word == "elif" ? expressions_.parse_tuple() : nullptr;
      end_of_block();
    }
    end_of_block();
    return statement;
  }

  Statement::Node parse_for() {
    For statement;
    statement.target = parse_target();
    tokens_.expect_word("in");
    statement.iterable = expressions_.parse_tuple(false);
    if (tokens_.skip_word("if")) statement.condition = expressions_.parse();
    statement.is_recursive = tokens_.skip_word("recursive");
    end_of_block();
    ++loops_;
    statement.body = parse_body({"else", "endfor"});
    --loops_;
    if (tokens_.skip_word("else")) {
      end_of_block();
      statement.otherwise = parse_body({"endfor"});
    }
    tokens_.expect_word("endfor");
    end_of_block();
    return statement;
  }

  // Parses a, or a, b, or (a, b).
  Target parse_target() {
    Target target = parse_target_part();
    if (!tokens_.is_symbol(",")) return target;
    Target tuple;
    tuple.parts.push_back(std::move(target));
    while (tokens_.skip_symbol(",")) {
      if (tokens_.is_word("in") || tokens_.is_symbol("=") || tokens_.is_symbol(")")) break;
      tuple.parts.push_back(parse_target_part());
    }
    return tuple;
  }

  Target parse_target_part() {
    if (++depth_ > kMaxDepth) tokens_.fail_expecting("fewer brackets");
    Target target;
    if (tokens_.skip_symbol("(")) {
      target = parse_target();
      tokens_.expect_symbol(")");
    } else {
      const Position position = tokens_.current().position;
      target.name = tokens_.take_name();
      static constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
      if (std::find(std::begin(kConstants), std::end(kConstants), target.name) != std::end(kConstants))
        throw SyntaxError(position, fmt::format("cannot assign to '{}'", target.name));
    }
    --depth_;
    return target;
  }

  Statement::Node parse_set() {
    Target target = parse_target();
    if (!target.name.empty() && tokens_.skip_symbol(".")) target.member = tokens_.take_name();
    if (tokens_.skip_symbol("=")) {
      Set statement{std::move(target), expressions_.parse_tuple()};
      end_of_block();
      return statement;
    }
    SetBlock statement{std::move(target), {}, nullptr};
    if (tokens_.skip_symbol("|")) statement.filter = expressions_.parse_block_filters();
    end_of_block();
    statement.body = parse_closed_body("endset");
    return statement;
  }

  void parse_parameters(Macro& macro) {
    tokens_.expect_symbol("(");
    while (!tokens_.is_symbol(")")) {
      std::string name = tokens_.take_name();
      const bool has_default = tokens_.skip_symbol("=");
      if (!has_default && !macro.parameters.empty() && macro.parameters.back().second != nullptr)
        tokens_.fail_expecting("a default value, as the parameter before has one");
      macro.parameters.emplace_back(std::move(name), has_default ? expressions_.parse() : nullptr);
      if (!tokens_.skip_symbol(",")) break;
    }
    tokens_.expect_symbol(")");
  }

  Statement::Node parse_macro() {
    Macro macro;
    macro.name = tokens_.take_name();
    parse_parameters(macro);
    end_of_block();
    macro.body = parse_closed_body("endmacro");
    return macro;
  }

  Statement::Node parse_call(const Position& position) {
    CallBlock statement;
    if (tokens_.is_symbol("(")) parse_parameters(statement.caller);
    statement.call = expressions_.parse_unary();
    if (!std::holds_alternative<Call>(statement.call->node))
      throw SyntaxError(position, "expected a call after 'call', such as {% call name(arguments) %}");
    end_of_block();
    statement.caller.body = parse_closed_body("endcall");
    return statement;
  }

  Statement::Node parse_filter() {
    FilterBlock statement;
    statement.filter = expressions_.parse_block_filters();
    end_of_block();
    statement.body = parse_closed_body("endfilter");
    return statement;
  }

  Statement::Node parse_with() {
    With statement;
    while (tokens_.current().kind == TokenKind::name) {
      Target target = parse_target_part();
      tokens_.expect_symbol("=");
      statement.assignments.emplace_back(std::move(target), expressions_.parse());
      if (!tokens_.skip_symbol(",")) break;
    }
    end_of_block();
    statement.body = parse_closed_body("endwith");
    return statement;
  }

  // A generation block marks the model's text for training. Here its body is simply printed.
  Statement::Node parse_generation() {
    end_of_block();
    return With{{}, parse_closed_body("endgeneration")};
  }

  Statement::Node parse_jump(const Position& position, const std::string& word) {
    if (loops_ == 0) throw SyntaxError(position, fmt::format("'{}' is not within a loop", word));
    end_of_block();
    if (word == "break") return Break{};
    return Continue{};
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::size_t depth_ = 0;
  std::size_t loops_ = 0;  // number of loops around the current statement
};

}  // namespace

Body parse_template(std::string_view source) { return Parser(source).run(); }

}  // namespace tp::jinja
