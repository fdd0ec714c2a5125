// Compares masks with trials of every token. Walks use only masks.
#include "runtime/constraint/completions.h"
#include "runtime/constraint/request_constraint.h"
#include "tests/runtime/constraint/text_matcher.h"
#include "tp/error.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tp::constraint {
namespace {

// A tokenizer with bytes, and one with parts of characters among its tokens.
std::vector<std::filesystem::path> tokenizer_folders() {
  std::vector<std::filesystem::path> folders = {
      std::filesystem::path(TP_TEST_DATA) / "tokenizers/gemma-style",
      std::filesystem::path(TP_TEST_DATA) / "tokenizers/tekken"};
  for (const char* name : {"gpt2", "llama3", "llama2", "qwen2"}) {
    const std::filesystem::path folder = std::filesystem::path(TP_SHARED_FIXTURES) / "tokenizers" / name;
    if (std::filesystem::exists(folder)) folders.push_back(folder);
  }
  return folders;
}

struct TestedModel {
  explicit TestedModel(const std::filesystem::path& folder)
      : tokenizer(Tokenizer::load(folder)), compiler(tokenizer, tokenizer.vocab_size(), ends()) {}

  std::vector<TokenId> ends() const { return {tokenizer.eos_id().value_or(0)}; }
  RequestConstraint constraint(const Constraint& text, Bans bans = {}) {
    bans.ends = ends();
    return RequestConstraint(compiler.compile(text), std::move(bans));
  }

  Tokenizer tokenizer;
  ConstraintCompiler compiler;
};

const std::vector<Constraint>& constraints() {
  static const std::vector<Constraint> list = {
      Regex{"(?:[a-z]{1,8} ){2,5}[0-9]{3}"},
      Regex{"[^a-f]{3,9}"},
      Choice{{"yes", "yesterday", "no", "né☃"}},
      JsonSchema{
          R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 3}, "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3}}, "required": ["name"]})"},
      JsonObject{},
      Grammar{"root ::= root \"+\" term | term\nterm ::= [0-9]+ | \"(\" root \")\""}};
  return list;
}

TEST(TokenMasks, AllowExactlyTheTokensAfterWhichATextCanFollow) {
  for (const std::filesystem::path& folder : tokenizer_folders()) {
    TestedModel model(folder);
    const std::shared_ptr<const ByteVocabulary> vocabulary = model.compiler.vocabulary();
    std::mt19937 random(5);
    for (const Constraint& text : constraints()) {
      const std::shared_ptr<CompiledConstraint> compiled = model.compiler.compile(text);
      StateMachine& machine = compiled->machine;
      StateId state = machine.start();
      for (int step = 0; step < 6 && !machine.is_final(state); ++step) {
        const TokenMask mask = *compiled->masks.allowed(state);
        std::vector<std::pair<TokenId, StateId>> allowed;
        for (std::size_t id = 0; id < vocabulary->size(); ++id) {
          const std::string_view bytes = vocabulary->bytes(static_cast<TokenId>(id));
          StateId next = bytes.empty() ? kDead : state;
          for (std::size_t i = 0; i < bytes.size() && next != kDead; ++i)
            next = machine.next(next, static_cast<std::uint8_t>(bytes[i]));
          ASSERT_EQ(mask.contains(static_cast<TokenId>(id)), next != kDead)
              << folder << " constraint " << text.index() << " step " << step << " token " << bytes;
          if (next != kDead) allowed.emplace_back(static_cast<TokenId>(id), next);
        }
        ASSERT_FALSE(allowed.empty());
        state = allowed[std::uniform_int_distribution<std::size_t>(0, allowed.size() - 1)(random)].second;
      }
    }
  }
}

// Draws tokens from the masks until the text ends. After some tokens, takes the shortest way to the end.
std::string walk(TestedModel& model, const RequestConstraint& constraint, std::mt19937& random,
                 std::vector<TokenId>& tokens) {
  Progress progress = constraint.start();
  std::string bytes;
  for (int step = 0; step < 400; ++step) {
    const TokenMask mask = constraint.allowed(progress);
    std::vector<TokenId> allowed;
    for (std::size_t id = 0; id < model.tokenizer.vocab_size(); ++id) {
      if (mask.contains(static_cast<TokenId>(id))) allowed.push_back(static_cast<TokenId>(id));
    }
    if (allowed.empty()) {
      ADD_FAILURE() << "no token is allowed after " << bytes;
      return bytes;
    }
    const bool may_end = mask.contains(model.ends().front());
    TokenId token = allowed[std::uniform_int_distribution<std::size_t>(0, allowed.size() - 1)(random)];
    if (may_end && step > 8) token = model.ends().front();
    if (token == model.ends().front()) return bytes;
    tokens.push_back(token);
    bytes += model.compiler.vocabulary()->bytes(token);
    progress = constraint.after(progress, token);
  }
  return bytes;
}

// Near a bound, only tokens that are long enough to reach it are tried.
TEST(TokenMasks, AreExactNearTheBoundsOfLongRepetitions) {
  for (const std::filesystem::path& folder : tokenizer_folders()) {
    TestedModel model(folder);
    const std::shared_ptr<const ByteVocabulary> vocabulary = model.compiler.vocabulary();
    const std::shared_ptr<CompiledConstraint> compiled =
        model.compiler.compile(JsonSchema{R"({"type": "string", "maxLength": 1000})"});
    StateMachine& machine = compiled->machine;
    StateId state = machine.next(machine.start(), '"');
    for (int length = 1; length <= 1000; ++length) {
      state = machine.next(state, 'a');
      if (length < 850 || (length % 9 != 0 && length < 997)) continue;
      const TokenMask mask = *compiled->masks.allowed(state);
      for (std::size_t id = 0; id < vocabulary->size(); ++id) {
        const std::string_view bytes = vocabulary->bytes(static_cast<TokenId>(id));
        StateId next = bytes.empty() ? kDead : state;
        for (std::size_t i = 0; i < bytes.size() && next != kDead; ++i)
          next = machine.next(next, static_cast<std::uint8_t>(bytes[i]));
        ASSERT_EQ(mask.contains(static_cast<TokenId>(id)), next != kDead)
            << folder << " at " << length << ": " << bytes;
      }
    }
  }
}

TEST(TokenMasks, WalksSatisfyTheirConstraints) {
  TestedModel model(tokenizer_folders().back());
  std::mt19937 random(7);
  for (const Constraint& text : {constraints()[0], constraints()[1], constraints()[2], constraints()[3]}) {
    TextMatcher matcher(text);
    const RequestConstraint constraint = model.constraint(text);
    for (int i = 0; i < 20; ++i) {
      std::vector<TokenId> tokens;
      const std::string written = walk(model, constraint, random, tokens);
      EXPECT_TRUE(matcher.matches(written)) << written;
      EXPECT_EQ(model.tokenizer.decode(tokens, SkipSpecial::yes), written);
    }
  }
}

std::vector<TokenId> tokens_with(TestedModel& model, char byte, bool single) {
  std::vector<TokenId> found;
  const auto vocabulary = model.compiler.vocabulary();
  for (std::size_t id = 0; id < vocabulary->size(); ++id) {
    const std::string_view bytes = vocabulary->bytes(static_cast<TokenId>(id));
    if (bytes.find(byte) != std::string_view::npos && (!single || bytes.size() == 1))
      found.push_back(static_cast<TokenId>(id));
  }
  return found;
}

TEST(Completions, AConstraintThatNoTokensSatisfyIsRefused) {
  for (const std::filesystem::path& folder : tokenizer_folders()) {
    TestedModel model(folder);
    const JsonSchema schema{
        R"({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})"};
    EXPECT_NO_THROW(model.constraint(schema)) << folder;
    EXPECT_THROW(model.constraint(schema, {.tokens = tokens_with(model, '"', false)}), RequestError)
        << folder;
    EXPECT_THROW(
        model.constraint(Choice{{"yes", "no"}}, {.tokens = {}, .sequences = {}, .ends = {}, .min_tokens = 5}),
        RequestError);
    EXPECT_NO_THROW(
        model.constraint(Regex{"[ab]+"}, {.tokens = {}, .sequences = {}, .ends = {}, .min_tokens = 50}));
  }
}

// Without a single quote token, only tokens such as `":` can close a string. In other places, they lead to
// dead ends.
TEST(Completions, WalksAvoidExcludedTokens) {
  for (const std::filesystem::path& folder : tokenizer_folders()) {
    TestedModel model(folder);
    std::mt19937 random(11);
    const JsonSchema schema{
        R"({"type": "object", "properties": {"a": {"enum": ["x", "yy"]}, "b": {"type": "boolean"}}, "required": ["a"]})"};
    TextMatcher matcher((Constraint(schema)));
    std::unique_ptr<RequestConstraint> constraint;
    try {
      constraint = std::make_unique<RequestConstraint>(
          model.compiler.compile(schema),
          Bans{.tokens = tokens_with(model, '"', true), .sequences = {}, .ends = model.ends()});
    } catch (const RequestError&) {
      continue;  // this vocabulary has no such tokens
    }
    for (int i = 0; i < 10; ++i) {
      std::vector<TokenId> tokens;
      const std::string written = walk(model, *constraint, random, tokens);
      EXPECT_TRUE(matcher.matches(written)) << folder << ": " << written;
    }
  }
}

TEST(Completions, TextsHaveMinTokens) {
  TestedModel model(tokenizer_folders().front());
  std::mt19937 random(13);
  const RequestConstraint constraint = model.constraint(
      Choice{{"a", "ab", "abracadabra"}}, {.tokens = {}, .sequences = {}, .ends = {}, .min_tokens = 6});
  for (int i = 0; i < 10; ++i) {
    std::vector<TokenId> tokens;
    EXPECT_EQ(walk(model, constraint, random, tokens), "abracadabra");
    EXPECT_GE(tokens.size(), 6U);
  }
}

// A search gives up after many steps, and remembers for how many tokens.
TEST(Completions, SearchesAreLimited) {
  TestedModel model(tokenizer_folders().front());
  const std::shared_ptr<CompiledConstraint> compiled =
      model.compiler.compile(Grammar{"root ::= [a-z] | [a-z] root"});
  StateMachine& machine = compiled->machine;
  Completions completions(*compiled->vocabulary, machine, TokenMask(compiled->vocabulary->size(), true));
  machine.limit_work(20000);
  EXPECT_THROW(completions.possible(machine.start(), 1000000), RequestError);
  machine.limit_work(std::uint64_t{1} << 40);
  EXPECT_FALSE(completions.possible(machine.start(), 1000000));
  // A search that has given up is not repeated with fewer tokens.
  machine.limit_work(100);
  EXPECT_FALSE(completions.possible(machine.start(), 999999));
  EXPECT_FALSE(completions.possible(machine.start(), 900000));
  EXPECT_EQ(machine.work_left(), 100U);
  machine.limit_work(std::uint64_t{1} << 40);
  EXPECT_TRUE(completions.possible(machine.start(), 100));
}

TEST(ConstraintCompiler, ForgetsTheOldestConstraintsBeyondItsMemory) {
  TestedModel model(tokenizer_folders().front());
  const auto number = [](int digits) { return Constraint(Regex{fmt::format("[0-9]{{{}}}x", digits)}); };
  const std::size_t bytes = model.compiler.compile(number(2))->bytes();
  EXPECT_GT(bytes, 0U);
  EXPECT_EQ(model.compiler.compile(number(2)), model.compiler.compile(number(2)));
  // Room for two constraints that are not used yet.
  const std::size_t limit = 2 * bytes + bytes / 2;
  ConstraintCompiler small(model.tokenizer, model.tokenizer.vocab_size(), model.ends(), limit);
  const std::shared_ptr<CompiledConstraint> first = small.compile(number(2));
  const std::shared_ptr<CompiledConstraint> second = small.compile(number(3));
  EXPECT_EQ(small.compile(number(2)), first);
  const std::shared_ptr<CompiledConstraint> third = small.compile(number(4));
  EXPECT_EQ(small.compile(number(2)), first);
  EXPECT_EQ(small.compile(number(4)), third);
  EXPECT_NE(small.compile(number(3)), second);
  // A constraint counts with the memory to which it has grown.
  const std::shared_ptr<CompiledConstraint> grown = small.compile(number(1000));
  StateId state = grown->machine.start();
  for (int i = 0; i < 1000; ++i) state = grown->machine.next(state, '5');
  EXPECT_GT(grown->bytes(), limit);
  const std::shared_ptr<CompiledConstraint> last = small.compile(number(5));
  EXPECT_EQ(small.compile(number(5)), last);
  EXPECT_NE(small.compile(number(1000)), grown);
}

// Returns the mask's tokens, if there are few.
std::vector<TokenId> tokens_in(const TokenMask& mask, std::size_t vocab_size) {
  std::vector<TokenId> tokens;
  for (std::size_t id = 0; id < vocab_size; ++id) {
    if (mask.contains(static_cast<TokenId>(id))) tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

// Returns the first control token that is not an end token.
TokenId control_token(const TestedModel& model) {
  for (std::size_t id = 0; id < model.tokenizer.vocab_size(); ++id) {
    const auto token = static_cast<TokenId>(id);
    if (model.tokenizer.is_special(token) && token != model.ends().front() &&
        model.tokenizer.id_to_token(token).starts_with("<"))
      return token;
  }
  return -1;
}

// A grammar's bytes never allow a control token. Its text is allowed only if the grammar contains it.
TEST(ControlTokens, AreTokensInGrammarsAndNotTheirText) {
  int tokenizers = 0;
  for (const std::filesystem::path& folder : tokenizer_folders()) {
    TestedModel model(folder);
    const TokenId control = control_token(model);
    if (control < 0) continue;
    ++tokenizers;
    SCOPED_TRACE(folder.string());
    const std::string text(model.tokenizer.id_to_token(control));
    const auto walked = [&](const std::string& gbnf, const std::vector<TokenId>& tokens) {
      const RequestConstraint constraint = model.constraint(Grammar{gbnf});
      Progress progress = constraint.start();
      for (const TokenId token : tokens) progress = constraint.after(progress, token);
      return progress.state == kDead ? std::vector<TokenId>()
                                     : tokens_in(constraint.allowed(progress), model.tokenizer.vocab_size());
    };
    const std::vector<TokenId> only = {control};
    EXPECT_EQ(walked("root ::= <[" + std::to_string(control) + "]> \"b\"", {}), only);
    EXPECT_EQ(walked("root ::= %marker \"" + text + "b\"", {}), only);
    EXPECT_TRUE(walked("root ::= .*", only).empty());
    EXPECT_EQ(walked("root ::= \"" + text + "\"", {}).empty(), false);
    EXPECT_TRUE(walked("root ::= \"" + text + "\"", only).empty());
    // Both the token and its text end the search.
    const std::string until = "root ::= %until \"" + text + "\"";
    const std::vector<TokenId> ends = model.ends();
    EXPECT_EQ(walked(until, only), ends);
    std::vector<TokenId> spelled;
    for (const char c : text) {
      const std::vector<TokenId> one = model.compiler.vocabulary()->encode_after_text(std::string(1, c));
      spelled.insert(spelled.end(), one.begin(), one.end());
    }
    EXPECT_EQ(walked(until, spelled), ends);
    EXPECT_TRUE(walked("root ::= %without \"" + text + "\"", spelled).empty());
    // An end token's text within a marker is not a part of it.
    const std::string end(model.tokenizer.id_to_token(ends.front()));
    EXPECT_EQ(walked("root ::= %marker \"" + text + end + "\"", only), ends);
    // Fixed texts before a marker are forced like others.
    const RequestConstraint constraint = model.constraint(
        Grammar{"root ::= \"Once upon a time, it was so\" <[" + std::to_string(control) + "]> [a-c]"});
    EXPECT_GT(constraint.forced(constraint.start()).size(), 3U);
    EXPECT_THROW(model.constraint(Grammar{"root ::= <[" + std::to_string(control) + "]>"}, {.tokens = only}),
                 RequestError);
  }
  EXPECT_GE(tokenizers, 1);
}

TEST(ForcedTokens, MatchTheTokenizersEncoding) {
  TestedModel model(tokenizer_folders().back());
  const RequestConstraint constraint = model.constraint(JsonSchema{
      R"({"type": "object", "properties": {"description": {"type": "string"}}, "required": ["description"]})",
      JsonSpace::compact});
  const std::vector<TokenId> forced = constraint.forced(constraint.start());
  ASSERT_GT(forced.size(), 1U);
  const std::string whole = "{\"description\":\"";
  const std::string text = model.tokenizer.decode(forced, SkipSpecial::yes);
  EXPECT_EQ(whole.substr(0, text.size()), text);
  const std::vector<TokenId> tokens = model.compiler.vocabulary()->encode_after_text(whole);
  EXPECT_EQ(std::vector<TokenId>(tokens.begin(), tokens.end() - 1), forced);
  Progress progress = constraint.start();
  for (const TokenId token : forced) {
    const TokenMask mask = constraint.allowed(progress);
    EXPECT_TRUE(mask.contains(token));
    progress = constraint.after(progress, token);
  }
}

}  // namespace
}  // namespace tp::constraint
