// Constraints in the leader: masks and forced tokens, with a fake worker.
#include "runtime/scheduling/leader.h"
#include "tests/error_of.h"
#include "tests/runtime/scheduling/leader_run.h"
#include "tests/temporary_directory.h"
#include "tp/error.h"

#include <regex>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tp::test {
namespace {

using nlohmann::json;

// Tokens 0 to 94 are the printable characters, 95 is a new line, and 96 is "ab". The end token is
// LeaderRun's.
const Tokenizer& letters_tokenizer() {
  static const Tokenizer kTokenizer = [] {
    json vocabulary = {{"Ġ", 0}, {"Ċ", 95}, {"ab", 96}};
    for (int i = 1; i < 95; ++i) vocabulary[std::string(1, static_cast<char>(' ' + i))] = i;
    const json end = {{"id", LeaderRun::kEos}, {"content", "<|end|>"}, {"special", true},
                      {"lstrip", false},       {"rstrip", false},      {"single_word", false},
                      {"normalized", false}};
    const json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    const json merges = json::array({json::array({"a", "b"})});
    const TemporaryDirectory folder;
    folder.write("tokenizer.json",
                 json({{"version", "1.0"},
                       {"added_tokens", {end}},
                       {"normalizer", nullptr},
                       {"pre_tokenizer", byte_level},
                       {"post_processor", nullptr},
                       {"decoder", byte_level},
                       {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}})
                     .dump());
    return Tokenizer::load(folder.path());
  }();
  return kTokenizer;
}

Request held_to(Constraint constraint, std::size_t prompt = 6, int max_tokens = 200) {
  Request request;
  request.prompt = prompt_of(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.0F;
  request.constraint = std::move(constraint);
  return request;
}

struct ConstrainedRun : LeaderRun {
  explicit ConstrainedRun(std::size_t blocks = 1000, std::size_t sequences = 8)
      : LeaderRun(blocks, 4, limits_of(16, sequences), {std::nullopt}, 0, nullptr, &letters_tokenizer()) {}
};

const constraint::JsonSchema kForm = {
    .schema = R"({"type": "object", "properties": {"description": {"enum": ["red", "green", "bluish"]},
                  "quantity": {"type": "integer", "minimum": 0, "maximum": 999}, "abbreviation": {"type": "string", "pattern": "^[a-z]{0,6}$"}},
                  "required": ["description", "quantity", "abbreviation"]})",
    .space = constraint::JsonSpace::compact};

TEST(LeaderConstraints, TextsSatisfyThemAndEnd) {
  const std::pair<const char*, std::regex> cases[] = {{"[a-c]{20}", std::regex("[a-c]{20}")},
                                                      {"(ab|x[0-9]+y){3}", std::regex("(ab|x[0-9]+y){3}")}};
  for (const auto& [pattern, expected] : cases) {
    ConstrainedRun run;
    Request request = held_to(constraint::Regex{pattern});
    request.n = 3;
    const RequestId id = run.add(request);
    run.run();
    for (int sample = 0; sample < 3; ++sample) {
      EXPECT_EQ(run.received[id].reasons[sample], FinishReason::stop);
      EXPECT_TRUE(std::regex_match(run.received[id].texts[sample], expected))
          << run.received[id].texts[sample];
    }
    expect_all_free(run);
  }
}

// Log-probabilities require a forward pass for every token.
TEST(LeaderConstraints, StretchesWithoutAChoiceTakeNoStepsAndTheTokensAreTheSame) {
  std::vector<TokenId> tokens[2];
  std::size_t steps[2] = {};
  for (const int logprobs : {-1, 0}) {
    ConstrainedRun run;
    Request request = held_to(kForm);
    request.sampling.logprobs = logprobs;
    const RequestId id = run.add(request);
    run.run();
    EXPECT_EQ(run.received[id].reasons[0], FinishReason::stop) << run.received[id].errors[0];
    EXPECT_TRUE(json::parse(run.received[id].texts[0]).contains("quantity"));
    const std::size_t which = logprobs < 0 ? 0 : 1;
    tokens[which] = run.received[id].tokens[0];
    steps[which] = run.steps;
  }
  EXPECT_EQ(tokens[0], tokens[1]);
  EXPECT_GE(steps[1], tokens[1].size());
  EXPECT_LT(steps[0], tokens[0].size() / 2);
}

TEST(LeaderConstraints, PreemptionAndThePrefixCacheChangeNothing) {
  const auto texts_with = [](std::size_t blocks, bool cache, std::uint64_t& preemptions) {
    ConstrainedRun run(blocks);
    std::vector<RequestId> ids;
    for (std::size_t i = 0; i < 6; ++i) {
      Request request = held_to(i % 2 == 0 ? Constraint(kForm) : Constraint(constraint::Regex{"[a-z ]{60}"}),
                                20 + i / 3, 120);
      request.cache_prompt = cache;
      ids.push_back(run.add(request));
    }
    run.run();
    preemptions = run.leader.status().preemptions;
    std::vector<std::string> texts;
    for (const RequestId id : ids) {
      EXPECT_EQ(run.received[id].reasons[0], FinishReason::stop);
      texts.push_back(run.received[id].texts[0]);
    }
    expect_all_free(run);
    return texts;
  };
  std::uint64_t none = 0;
  std::uint64_t some = 0;
  const std::vector<std::string> alone = texts_with(1000, false, none);
  EXPECT_EQ(none, 0U);
  EXPECT_EQ(texts_with(1000, true, none), alone);
  EXPECT_EQ(texts_with(40, true, some), alone);
  EXPECT_GT(some, 0U);
}

TEST(LeaderConstraints, AreRejectedBeforeTheQueueIfUnsatisfiable) {
  ConstrainedRun run;
  const auto refusal = [&](Request request) -> std::string {
    return error_of<RequestError>([&] { run.add(std::move(request)); });
  };
  Request banned = held_to(constraint::Choice{{"yes"}});
  banned.sampling.logit_bias = {{'e' - ' ', -100.0F}};
  EXPECT_EQ(refusal(banned).find("`constraint`: the constraint cannot be satisfied"), 0U) << refusal(banned);
  EXPECT_EQ(
      refusal(held_to(constraint::Choice{{"é"}})).find("`constraint`: the constraint cannot be satisfied"),
      0U);
  EXPECT_EQ(refusal(held_to(constraint::Regex{"("})).find("`constraint`: the regular expression"), 0U);
  Request alone = held_to(constraint::Choice{{"yes"}});
  alone.constraint.reset();
  alone.constraint_frame = "root ::= \"a\" %constraint";
  EXPECT_EQ(refusal(alone).find("constraint_frame surrounds the text of a constraint"), 0U);
  EXPECT_FALSE(run.leader.has_work());
}

Request thinking_first(int max) {
  Request request = held_to(constraint::Regex{"[0-9]{5}"});
  request.constraint_frame = "root ::= %until \"</think>\" [\\n]{0,2} %constraint";
  std::vector<TokenId> end;
  for (const char c : std::string("</think>")) end.push_back(c - ' ');
  request.thinking = {
      .max_tokens = max, .begin = "<think>", .end = "</think>", .end_ids = end, .has_begun = true};
  return request;
}

TEST(LeaderConstraints, BeginAfterThinkingThatMayBeLimited) {
  for (const int max : {0, 1, 25}) {
    ConstrainedRun run;
    const RequestId id = run.add(thinking_first(max));
    run.run();
    const std::string& text = run.received[id].texts[0];
    EXPECT_EQ(run.received[id].reasons[0], FinishReason::stop) << run.received[id].errors[0];
    EXPECT_TRUE(std::regex_match(text, std::regex("[^]*</think>\\n{0,2}[0-9]{5}"))) << text;
    EXPECT_EQ(run.received[id].tokens[0].size() - 1 - max, text.size() - text.find("</think>"))
        << "after " << max << " tokens of thinking";
  }
  ConstrainedRun run;
  Request request = thinking_first(3);
  request.constraint_frame.clear();
  EXPECT_THROW(run.add(request), RequestError);
}

// An automaton creates its states when it reaches them, so it can exceed its limit in the middle of a text.
TEST(LeaderConstraints, EndOnlyTheirRequestIfTheyBecomeTooLarge) {
  std::string ambiguous = "root ::= \"a\" (\"b\"";
  for (int i = 0; i < 5000; ++i) ambiguous += fmt::format(" | [a-z] \"{}\"", i);
  ConstrainedRun run;
  const RequestId good = run.add(held_to(constraint::Regex{"[a-c]{30}"}));
  const RequestId bad = run.add(held_to(constraint::Grammar{ambiguous + ")"}));
  run.run();
  EXPECT_EQ(run.received[good].reasons[0], FinishReason::stop);
  EXPECT_EQ(run.received[bad].reasons[0], FinishReason::error);
  EXPECT_EQ(run.received[bad].errors[0].find("the constraint is too ambiguous: expected at most 4096 ways"),
            0U)
      << run.received[bad].errors[0];
  expect_all_free(run);
}

}  // namespace
}  // namespace tp::test
