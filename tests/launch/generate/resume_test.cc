// tp-infer generate --batch --output --resume: finished requests are not repeated.

#include "parallel/machine/file_text.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <algorithm>
#include <csignal>
#include <fstream>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

class Resume : public testing::Test {
 protected:
  Arguments arguments(const Arguments& more = {}) const {
    Arguments all = {"generate", "--model",  model_.path(), "--batch",      requests_, "--output",
                     output_,    "--resume", "--greedy",    "--max-tokens", "4",       "--ignore-eos"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  void write_requests(const std::vector<json>& requests) const {
    std::string lines;
    for (const json& request : requests) lines += request.dump() + "\n";
    directory_.write("requests.jsonl", lines);
  }

  std::string output() const { return file_text(output_); }

  // Returns the lines that the run appended to the file with the content `earlier`.
  std::vector<json> appended_to(const std::string& earlier, int status = 0) const {
    directory_.write("results.jsonl", earlier);
    const Finished finished = run(kNoMpirun, arguments());
    EXPECT_EQ(finished.status, status) << finished.err;
    EXPECT_EQ(finished.out, "");
    const std::string all = output();
    const std::string whole_lines = earlier.substr(0, earlier.rfind('\n') + 1);
    EXPECT_TRUE(all.starts_with(whole_lines)) << all;
    return json_lines(all.substr(std::min(all.size(), whole_lines.size())));
  }

  const TextModel model_;
  const TemporaryDirectory directory_;
  const std::string requests_ = directory_.path() / "requests.jsonl";
  const std::string output_ = directory_.path() / "results.jsonl";
};

std::ptrdiff_t lines_in(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST_F(Resume, GivesEveryResultExactlyOnceWhereTheJobWasKilled) {
  constexpr int kRequests = 60;
  std::vector<json> requests;
  for (int i = 0; i < kRequests; ++i)
    requests.push_back({{"id", i}, {"prompt", "Hi " + std::to_string(i)}, {"max_tokens", 40}});
  write_requests(requests);
  const std::vector<std::string> command = command_line(2, arguments({"--max-sequences", "2"}));
  {
    Process process(command);
    ASSERT_TRUE(process.wait_for_output([&](const std::string&) { return lines_in(output()) >= 3; }, 60));
    for (const pid_t member : process.members()) ::kill(member, SIGKILL);
    EXPECT_NE(process.finish().status, 0);
  }
  const std::string before = output();
  ASSERT_LT(lines_in(before), kRequests);
  // Imitates an interruption in the middle of a line.
  std::ofstream(output_, std::ios::app) << R"({"id": 59, "text": "to)";
  const Finished finished = Process(command).finish();
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(output().starts_with(before.substr(0, before.rfind('\n') + 1)));
  std::vector<int> ids;
  for (const json& line : json_lines(output())) ids.push_back(line.at("id").get<int>());
  std::sort(ids.begin(), ids.end());
  ASSERT_EQ(ids.size(), static_cast<std::size_t>(kRequests));
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(ids[static_cast<std::size_t>(i)], i);
}

TEST_F(Resume, RepeatsFailedAndMissingRequests) {
  write_requests({{{"id", "done"}, {"prompt", "One"}},
                  {{"id", "failed"}, {"prompt", "Two"}},
                  {{"id", {{"any", "thing"}}}, {"prompt", "Three"}}});
  const std::vector<json> lines = appended_to(
      "{\"id\": \"done\", \"sample\": 0, \"text\": \"\"}\n"
      "{\"id\": \"failed\", \"error\": \"no\"}\n");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("id"), "failed");
  EXPECT_EQ(lines[0].at("index"), 1);
  EXPECT_EQ(lines[0].at("token_ids").size(), 4U);
  EXPECT_EQ(lines[1].at("id"), json({{"any", "thing"}}));

  EXPECT_EQ(appended_to(output()).size(), 0U) << "now everything is there";
}

TEST_F(Resume, WritesOnlyTheMissingContinuations) {
  write_requests({{{"id", 1}, {"prompt", "One"}, {"n", 3}}});
  const std::vector<json> lines =
      appended_to("{\"id\": 1, \"sample\": 1, \"text\": \"\"}\n{\"id\": 1, \"sample\": 2, \"te");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("sample").get<int>() + lines[1].at("sample").get<int>(), 0 + 2);
}

TEST_F(Resume, KnowsAnswersInOpenAIsForm) {
  const auto request = [](const char* id) { return json{{"custom_id", id}, {"body", {{"prompt", "One"}}}}; };
  write_requests({request("a"), request("b"), request("c")});
  const std::vector<json> lines = appended_to(
      "{\"custom_id\": \"a\", \"response\": {\"status_code\": 200}, \"error\": null}\n"
      "{\"custom_id\": \"b\", \"response\": {\"status_code\": 400}, \"error\": null}\n");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("custom_id"), "b");
  EXPECT_EQ(lines[1].at("custom_id"), "c");
}

TEST_F(Resume, BeginsWithoutAFile) {
  write_requests({{{"id", 1}, {"prompt", "One"}}});
  const Finished finished = run(2, arguments());
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(json_lines(output()).size(), 1U);
}

TEST_F(Resume, RejectsIndistinguishableRequests) {
  write_requests({{{"id", 1}, {"prompt", "One"}}, {{"prompt", "Two"}}});
  expect_one_error(run(2, arguments()), 1, "requests.jsonl:2: it has no `id`, but --resume recognizes");
  write_requests({{{"id", 1}, {"prompt", "One"}}, {{"id", 1}, {"prompt", "Two"}}});
  expect_one_error(run(kNoMpirun, arguments()), 1, "requests.jsonl:2: an earlier request also has the id 1,");
  EXPECT_FALSE(std::filesystem::exists(output_));
  // From standard input, the other requests are served, because later ids are unknown.
  Arguments from_input = arguments();
  *std::find(from_input.begin(), from_input.end(), requests_) = "-";
  const Finished finished =
      run(kNoMpirun, from_input, {.input = "{\"prompt\": \"Two\"}\n{\"id\": 1, \"prompt\": \"One\"}\n"});
  EXPECT_EQ(finished.status, 1);
  const std::vector<json> lines = json_lines(output());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_CONTAINS(lines[0].at("error").get<std::string>(), "it has no `id`");
  EXPECT_EQ(lines[1].at("id"), 1);
}

TEST_F(Resume, RefusesAFileThatDoesNotHoldResults) {
  write_requests({{{"id", 1}, {"prompt", "One"}}});
  directory_.write("results.jsonl", "{\"id\": 2, \"sample\": 0, \"text\": \"\"}\nOnce upon a time\n");
  const std::string before = output();
  expect_one_error(run(kNoMpirun, arguments()), 1, "results.jsonl: line 2 is not a result");
  EXPECT_EQ(output(), before);
  for (const Arguments& wrong :
       std::vector<Arguments>{{"generate", "--prompt", "x", "--resume"},
                              {"generate", "--batch", "x", "--resume"},
                              {"generate", "--batch", "x", "--resume", "--output", "-"}}) {
    expect_one_error(run(kNoMpirun, wrong), 2, "give it with --batch and --output");
  }
}

TEST_F(Resume, NeverTruncatesForeignFiles) {
  write_requests({{{"id", 1}, {"prompt", "One"}}});
  for (const std::string mine : {"my only copy, one line, no newline", R"({"id": 1, "text": "mine"})"}) {
    directory_.write("results.jsonl", mine);
    expect_one_error(run(kNoMpirun, arguments()), 1,
                     "results.jsonl: expected results, one per line, found only");
    EXPECT_EQ(output(), mine);
  }
  // Requests are JSON, too.
  directory_.write("results.jsonl", "{\"id\": 1, \"prompt\": \"One\"}\n{\"id\": 2");
  expect_one_error(run(kNoMpirun, arguments()), 1, "results.jsonl: line 1 is not a result");
}

TEST_F(Resume, CutsTheFirstLineIfItWasTorn) {
  write_requests({{{"id", 1}, {"prompt", "One"}}});
  EXPECT_EQ(appended_to("").size(), 1U);
  const std::string line = output();
  for (const std::size_t size : {std::size_t{1}, std::size_t{30}, line.size() - 1}) {
    SCOPED_TRACE(line.substr(0, size));
    EXPECT_EQ(appended_to(line.substr(0, size)).size(), 1U);
  }
}

TEST_F(Resume, RefusesResultsThatAreNestedTooDeep) {
  write_requests({{{"id", 1}, {"prompt", "One"}}});
  const std::string nested =
      "{\"id\":" + std::string(200000, '[') + std::string(200000, ']') + ",\"sample\":0}\n";
  directory_.write("results.jsonl", nested);
  expect_one_error(run(kNoMpirun, arguments()), 1, "results.jsonl: line 1 is not a result");
  EXPECT_EQ(output(), nested);
}

TEST_F(Resume, NamesACircularLink) {
  write_requests({{{"id", 1}, {"prompt", "One"}}});
  std::filesystem::create_symlink(output_, output_);
  expect_one_error(run(kNoMpirun, arguments()), 1,
                   "cannot resume " + output_ +
                       ": expected the --output of an earlier run, found: Too many levels of symbolic links");
}

}  // namespace
}  // namespace tp::test
