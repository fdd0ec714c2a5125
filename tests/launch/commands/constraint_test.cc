// Constraints from a user, with the demo model.
#include "tests/doc_example.h"
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/run_line.h"
#include "tests/temporary_directory.h"

#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

const char* const kPerson =
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 130}, "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 2}},
        "required": ["name", "age", "tags"]})";

std::string constrained_text_of(const Finished& finished) {
  expect_success(finished);
  const std::vector<nlohmann::json> lines = json_lines(finished.out);
  return lines.size() == 1 && lines[0].contains("text") ? lines[0].at("text").get<std::string>()
                                                        : finished.out;
}

TEST(Constraints, JsonFollowsItsSchemaAndIsTheSameOverAllRanks) {
  for (const char* seed : {"1", "2"}) {
    std::set<std::string> texts;
    for (const std::size_t ranks : {kNoMpirun, std::size_t{2}, std::size_t{3}}) {
      const Finished finished = run(ranks, {"generate", "--prompt", "A person:", "--json-schema", kPerson,
                                            "--seed", seed, "--temperature", "1", "--same-bits", "--json"});
      const std::string text = constrained_text_of(finished);
      const nlohmann::json person = nlohmann::json::parse(text, nullptr, false);
      ASSERT_TRUE(person.is_object()) << text;
      EXPECT_TRUE(person.at("name").is_string());
      EXPECT_LE(person.at("age").get<int>(), 130);
      EXPECT_LE(person.at("tags").size(), 2U);
      EXPECT_EQ(json_lines(finished.out)[0].at("finish_reason"), "stop");
      texts.insert(text);
    }
    EXPECT_EQ(texts.size(), 1U);
  }
}

// With log-probabilities, every token needs a separate forward pass.
TEST(Constraints, StretchesWithoutAChoiceAreTheSameWithAndWithoutForwardPasses) {
  const Arguments arguments = {"generate", "--prompt", "A person:", "--json-schema", kPerson, "--json-space",
                               "compact",  "--seed",   "5",         "--temperature", "1",     "--same-bits",
                               "--json"};
  Arguments with_logprobs = arguments;
  with_logprobs.insert(with_logprobs.end(), {"--logprobs", "0"});
  const Finished jumped = run(2, arguments);
  const Finished stepped = run(2, with_logprobs);
  EXPECT_EQ(constrained_text_of(jumped), constrained_text_of(stepped));
  EXPECT_EQ(json_lines(jumped.out)[0].at("token_ids"), json_lines(stepped.out)[0].at("token_ids"));
}

// The lines have a common prefix.
TEST(Constraints, ApplyPerRequestWithAnyRanksPrefixCacheAndPreemption) {
  std::string requests;
  for (int i = 0; i < 8; ++i) {
    nlohmann::json line = {
        {"prompt", "Once upon a time there was"}, {"seed", i}, {"temperature", 1}, {"max_tokens", 60}};
    if (i % 4 == 0) line["regex"] = "( [a-z]{2,6}){4}";
    if (i % 4 == 1) line["choice"] = {" a dog", " a cat"};
    if (i % 4 == 2) line["grammar"] = "root ::= item{3}\nitem ::= \" \" [a-d]+ \"!\"";
    if (i % 4 == 3)
      line["json_schema"] = {
          {"type", "array"}, {"items", {{"enum", {"dog", "cat", 7}}}}, {"minItems", 3}, {"maxItems", 5}};
    line["n"] = 2;
    requests += line.dump() + "\n";
  }
  const TemporaryDirectory directory;
  const std::string batch = directory.write("requests.jsonl", requests);
  std::set<std::string> outputs;
  for (const auto& [ranks, cache] :
       {std::pair<std::size_t, const char*>{1, "4096"}, {2, "128"}, {3, "256"}}) {
    const Finished finished =
        run(ranks, {"generate", "--batch", batch, "--same-bits", "--cache-tokens", cache});
    EXPECT_EQ(finished.status, 0) << finished.err;
    std::map<std::pair<int, int>, std::string> texts;
    for (const nlohmann::json& line : json_lines(finished.out))
      texts[{line.at("index").get<int>(), line.at("sample").get<int>()}] = line.value("text", "?");
    EXPECT_EQ(texts.size(), 16U);
    for (const auto& [key, text] : texts) {
      if (key.first % 4 == 1) {
        EXPECT_TRUE(text == " a dog" || text == " a cat") << text;
      }
      if (key.first % 4 == 3) {
        EXPECT_GE(nlohmann::json::parse(text).size(), 3U) << text;
      }
    }
    outputs.insert(nlohmann::json(texts).dump());
  }
  EXPECT_EQ(outputs.size(), 1U);
}

TEST(Constraints, TheExamplesOfTheGuideWork) {
  const TemporaryDirectory directory;
  const Finished finished =
      run_line(doc_example("runtime/constraint/README.md", "# Structured output"), directory.path());
  expect_success(finished);
  const std::regex expected(
      "\\{[^]*\"name\":[^]*\"age\":[^]*\\}\nThe date is [A-Z][a-z]{2,8} [0-9]{1,2}\nWas she happy\\? "
      "(yes|no)\n"
      "Three things:(- [a-z ]{3,20}\n){3}");
  EXPECT_TRUE(std::regex_match(finished.out, expected)) << finished.out;
}

TEST(Constraints, WrongConstraintsAreReportedBeforeTheModelIsLoaded) {
  const auto refused = [](const Arguments& options, int status, const std::string& message) {
    Arguments arguments = {"generate", "--prompt", "x"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    expect_one_line(run(kNoMpirun, arguments), status, message);
  };
  refused({"--json-schema", R"({"type": "objekt"})"}, 1,
          "the JSON Schema at `/type`: expected object, array");
  refused({"--regex", "(a"}, 1, "the regular expression: expected `)`, found its end at offset 2");
  refused({"--grammar", "/nowhere.gbnf"}, 1, "/nowhere.gbnf");
  refused({"--grammar", "/dev/zero"}, 1, "/dev/zero: expected a text of at most 1048576 bytes, found more");
  refused({"--json-schema", "{\"\xFF\": 1}"}, 1,
          "the JSON Schema is not UTF-8 (expected text, found byte 0xFF at offset 2)");
  refused({"--regex", "a", "--choice", "b"}, 2,
          "expected one of --json-schema, --json-object, --regex, --choice and --grammar");
  refused({"--json-object", "--json-space", "wide"}, 2, "expected one of flexible, compact");
}

TEST(Constraints, ImpossibleConstraintsAreRejected) {
  const Finished finished =
      run(kNoMpirun, {"generate", "--prompt", "x", "--choice", "a", "--min-tokens", "9"});
  EXPECT_EQ(finished.status, 1);
  EXPECT_CONTAINS(finished.err, "the constraint cannot be satisfied");
}

}  // namespace
}  // namespace tp::test
