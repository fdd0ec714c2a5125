// tp-infer generate --batch: JSON lines in, JSON lines out.

#include "tests/doc_example.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

Arguments batch(const TextModel& model) {
  return {"generate", "--model",      model.path(), "--batch",     "-",
          "--greedy", "--max-tokens", "6",          "--ignore-eos"};
}

std::string request_lines(const std::vector<json>& requests) {
  std::string text;
  for (const json& request : requests) text += request.dump() + "\n";
  return text;
}

// Sorts lines of output by request. The output has them in the order in which they finish.
std::vector<json> in_order(const std::string& output) {
  std::vector<json> lines = json_lines(output);
  const auto place = [](const json& line) {
    return std::tuple(line.value("index", 0), line.value("sample", 0));
  };
  std::sort(lines.begin(), lines.end(), [&](const json& a, const json& b) { return place(a) < place(b); });
  return lines;
}

// Returns the only continuation of one line.
json answer(const TextModel& model, const json& request) {
  const Finished finished = run(kNoMpirun, batch(model), {.input = request_lines({request})});
  expect_success(finished);
  return json_lines(finished.out).at(0);
}

// Returns the errors of lines that fail.
std::vector<std::string> errors_of(const TextModel& model, const std::vector<json>& requests) {
  const Finished finished = run(kNoMpirun, batch(model), {.input = request_lines(requests)});
  EXPECT_EQ(finished.status, 1);
  std::vector<std::string> errors;
  for (const json& line : json_lines(finished.out)) errors.push_back(line.value("error", "no error"));
  return errors;
}

TEST(Batch, TheRequestOfTheGuideIsAnswered) {
  const Finished finished = run(2, {"generate", "--batch", "-", "--greedy"},
                                {.input = doc_example("launch/README.md", "### Batches")});
  expect_success(finished);
  const json line = json_lines(finished.out).at(0);
  EXPECT_EQ(line.at("id"), 8);
  EXPECT_EQ(line.at("sampling").at("logit_bias"), (json{{"11", -5.0}}));
  EXPECT_EQ(line.at("sampling").at("min_tokens"), 10);
  EXPECT_EQ(line.at("finish_reason"), "stop");
  const std::string text = line.at("text");
  EXPECT_EQ(text.find('.'), std::string::npos) << text;
  EXPECT_EQ(text.find("cat"), std::string::npos) << text;
  EXPECT_GE(line.at("token_ids").size(), 10U);
}

TEST(Batch, EveryLineIsAnsweredIndependently) {
  const TextModel model;
  const std::vector<json> requests = {{{"prompt", "One"}},
                                      {{"prompt", "Two \"words\"\n"}, {"max_tokens", 9}},
                                      {{"ids", {2, 300, 301}}, {"temperature", 0.8}, {"seed", 5}}};
  std::vector<json> alone;
  for (const json& request : requests) alone.push_back(answer(model, request));
  for (const std::size_t ranks : {2, 3}) {
    const Finished finished = run(ranks, batch(model), {.input = request_lines(requests)});
    expect_success(finished);
    const std::vector<json> lines = in_order(finished.out);
    ASSERT_EQ(lines.size(), requests.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lines[i].at("index"), i);
      EXPECT_EQ(lines[i].at("text"), alone[i].at("text")) << ranks << " ranks, line " << i;
      EXPECT_EQ(lines[i].at("token_ids"), alone[i].at("token_ids"));
    }
  }
}

// Scores the prompt's tokens, with and without a generated token, for evaluations without a server.
TEST(Batch, EchoScoresThePrompt) {
  const TextModel model;
  const auto line = [](int max_tokens) {
    return json{{"custom_id", std::to_string(max_tokens)},
                {"body",
                 {{"prompt", {2, 300, 301, 302}},
                  {"max_tokens", max_tokens},
                  {"temperature", 0},
                  {"echo", true},
                  {"logprobs", 1}}}};
  };
  const Finished finished = run(2, batch(model), {.input = request_lines({line(0), line(3)})});
  expect_success(finished);
  std::map<std::string, json> choices;
  for (const json& answer : json_lines(finished.out))
    choices[answer.at("custom_id")] = answer.at("response").at("body").at("choices").at(0);
  ASSERT_EQ(choices.size(), 2U);
  const json scored = choices["0"].at("logprobs").at("token_logprobs");
  const json longer = choices["3"].at("logprobs").at("token_logprobs");
  EXPECT_EQ(choices["0"].at("finish_reason"), "length");
  ASSERT_EQ(scored.size(), 4U);
  ASSERT_EQ(longer.size(), 7U);
  EXPECT_EQ(scored[0], nullptr);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_LT(scored[i], 0.0);
    EXPECT_NEAR(scored[i].get<double>(), longer[i].get<double>(), 1e-5);
  }
  EXPECT_EQ(choices["3"].at("text").get<std::string>().find(choices["0"].at("text").get<std::string>()), 0U);
}

TEST(Batch, ABadLineDoesNotStopTheOthers) {
  const TextModel model;
  const std::string input =
      "{\"prompt\": \"One\", \"id\": \"first\"}\n"
      "{\"prompt\":\n"
      "\n"
      "[1, 2]\n"
      "{\"prompt\": \"bad \xff\"}\n"
      "{\"prompt\": \"n\", \"n\": 2147483647, \"id\": 4}\n"
      "{\"prompt\": \"Two\", \"n\": 2, \"id\": {\"any\": \"thing\"}}\r\n"
      "{\"ids\": [2600]}";
  for (const std::size_t ranks : {std::size_t{kNoMpirun}, std::size_t{3}}) {
    const Finished finished = run(ranks, batch(model), {.input = input});
    EXPECT_EQ(finished.status, 1);
    EXPECT_EQ(without_mpi_noise(finished.err),
              "tp-infer: 5 of 7 requests failed; see `error` in the output\n");
    const std::vector<json> lines = in_order(finished.out);
    ASSERT_EQ(lines.size(), 8U);
    EXPECT_EQ(lines[0].at("id"), "first");
    EXPECT_EQ(lines[0].at("token_ids").size(), 6U);
    EXPECT_CONTAINS(lines[1].at("error").get<std::string>(),
                    "standard input:2: expected a JSON object (parse error");
    EXPECT_EQ(lines[2].at("error"),
              "standard input:4: expected a JSON object such as {\"prompt\": \"...\"}, found array");
    EXPECT_CONTAINS(lines[3].at("error").get<std::string>(), "expected UTF-8, found other bytes");
    EXPECT_CONTAINS(lines[4].at("error").get<std::string>(), "`n` is 2147483647, expected 1 to 4096");
    EXPECT_EQ(lines[4].at("id"), 4);
    EXPECT_EQ(lines[6].at("index"), 5);
    EXPECT_EQ(lines[6].at("sample"), 1);
    EXPECT_EQ(lines[6].at("id"), json({{"any", "thing"}}));
    EXPECT_CONTAINS(lines[7].at("error").get<std::string>(),
                    "standard input:8: prompt has token id 2600, but the vocabulary has the ids 0 to 2599");
    for (const std::size_t bad : {1, 2, 3, 4, 7}) EXPECT_EQ(lines[bad].at("finish_reason"), "error");
  }
}

TEST(Batch, NamesUnknownFieldsAndWrongTypes) {
  const TextModel model;
  const std::vector<std::string> errors =
      errors_of(model, {{{"prompt", "x"}, {"maxtokens", 3}},
                        {{"prompt", "x"}, {"max_tokens", 3.5}},
                        {{"prompt", "x"}, {"ignore_eos", 1}},
                        {{"prompt", "x"}, {"stop", {1}}},
                        {{"prompt", "x"}, {"ids", {1}}},
                        {{"prompt", "x"}, {"seed", 1e23}},
                        {{"prompt", "x"}, {"seed", 1.5}},
                        {{"prompt", "x"}, {"seed", ""}},
                        {{"prompt", "x"}, {"temperature", 1e39}},
                        {{"prompt", "x"}, {"temperature", ""}},
                        {{"text", "x"}},
                        {{"prompt", "x"}, {"logprobs", 18446744073709551615U}},
                        {{"prompt", "x"}, {"top_k", -2147483649}}});
  ASSERT_EQ(errors.size(), 13U);
  EXPECT_CONTAINS(errors[0], "unknown field `maxtokens`; a line may have prompt, ids, messages, id, ");
  EXPECT_EQ(errors[1],
            "standard input:2: `max_tokens`: expected a whole number from 1 to 2147483647, found 3.5");
  EXPECT_EQ(errors[2], "standard input:3: `ignore_eos`: expected true or false, found 1");
  EXPECT_EQ(errors[3], "standard input:4: `stop`: expected a text or a list of texts, found [1]");
  EXPECT_CONTAINS(errors[4], "found several");
  for (const std::size_t seed : {5, 6, 7})
    EXPECT_CONTAINS(errors[seed], "`seed`: expected a whole number of 64 bits, found ");
  EXPECT_EQ(errors[8], "standard input:9: `temperature`: expected a number, found 1e+39");
  EXPECT_EQ(errors[9], "standard input:10: `temperature`: expected a number, found \"\"");
  EXPECT_CONTAINS(errors[10], "found none");
  EXPECT_EQ(errors[11],
            "standard input:12: `logprobs`: expected a whole number from -1 to 2147483647, found "
            "18446744073709551615");
  EXPECT_EQ(errors[12],
            "standard input:13: `top_k`: expected a whole number from 0 to 2147483647, found -2147483649");
}

TEST(Batch, RejectsDuplicateFields) {
  const TextModel model;
  const Finished finished =
      run(kNoMpirun, batch(model), {.input = R"({"prompt": "One", "max_tokens": 2, "max_tokens": 3})"});
  EXPECT_EQ(finished.status, 1);
  EXPECT_EQ(json_lines(finished.out).at(0).at("error"),
            "standard input:1: expected a JSON object (an object has the key max_tokens twice)");
}

TEST(Batch, ALinesSettingsWinOverTheFlags) {
  const TextModel model;
  const json usual = answer(model, {{"prompt", "One"}});
  EXPECT_EQ(answer(model, {{"prompt", "One"}, {"max_tokens", 2}}).at("token_ids").size(), 2U);
  EXPECT_EQ(answer(model, {{"prompt", "One"}, {"logprobs", 2}}).at("logprobs").size(), 6U);
  const json hot = {{"prompt", "One"}, {"temperature", 50.0}, {"seed", 1}};
  EXPECT_NE(answer(model, hot).at("token_ids"), usual.at("token_ids"));
  EXPECT_EQ(answer(model, hot).at("token_ids"), answer(model, hot).at("token_ids"));
}

// A worker gets a line, answers it, and waits for the next line.
class Worker : public testing::TestWithParam<std::size_t> {};

TEST_P(Worker, AnswersEveryLineBeforeTheNextComes) {
  const TextModel model;
  Process process(command_line(GetParam(), batch(model)), {.keep_input_open = true});
  for (int i = 0; i < 3; ++i) {
    process.write_input(json{{"prompt", "Hi"}, {"id", i}}.dump() + "\n");
    const auto has_answer = [&](const std::string& out) {
      return out.find("\"id\":" + std::to_string(i)) != std::string::npos && out.ends_with('\n');
    };
    ASSERT_TRUE(process.wait_for_output(has_answer, 60));
  }
  process.write_input("{\"prompt\": \"the last one has no newline\", \"id\": 3}");
  process.close_input();
  const Finished finished = process.finish();
  expect_success(finished);
  const std::vector<json> lines = json_lines(finished.out);
  ASSERT_EQ(lines.size(), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(lines[static_cast<std::size_t>(i)].at("index"), i);
}

TEST_P(Worker, BeginsWithALineWhileItWorksOnAnother) {
  const TextModel model;
  Process process(command_line(GetParam(), batch(model)), {.keep_input_open = true});
  process.write_input("{\"prompt\": \"Hi\", \"id\": \"long\", \"max_tokens\": 1500}\n");
  // An error is written immediately. The previous line is then being processed.
  process.write_input("{\"id\": \"wrong\"}\n");
  ASSERT_TRUE(process.wait_for_output([](const std::string& out) { return !out.empty(); }, 60));
  process.write_input("{\"prompt\": \"Hi\", \"id\": \"short\"}\n");
  process.close_input();
  const Finished finished = process.finish();
  EXPECT_EQ(finished.status, 1);
  const std::vector<json> lines = json_lines(finished.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].at("id"), "wrong");
  EXPECT_EQ(lines[1].at("id"), "short");
  EXPECT_EQ(lines[2].at("id"), "long");
}

INSTANTIATE_TEST_SUITE_P(OverRanks, Worker, testing::Values(kNoMpirun, 2));

TEST(Batch, MoreLinesThanAreWorkedOnAtOnceAreAllAnswered) {
  const TextModel model;
  std::vector<json> requests;
  for (int i = 0; i < 20; ++i) requests.push_back({{"prompt", "Hi"}, {"id", i}, {"max_tokens", 1 + i % 3}});
  Arguments arguments = batch(model);
  arguments.insert(arguments.end(), {"--max-sequences", "2"});
  const Finished finished = run(kNoMpirun, arguments, {.input = request_lines(requests)});
  expect_success(finished);
  const std::vector<json> lines = in_order(finished.out);
  ASSERT_EQ(lines.size(), requests.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("id"), i);
    EXPECT_EQ(lines[i].at("token_ids").size(), 1 + i % 3);
  }
}

TEST(Batch, WithoutLinesIsAnError) {
  const TextModel model;
  for (const std::size_t ranks : {std::size_t{kNoMpirun}, std::size_t{2}}) {
    expect_one_error(run(ranks, batch(model), {.input = "\n"}), 1, "standard input: no requests");
  }
}

}  // namespace
}  // namespace tp::test
