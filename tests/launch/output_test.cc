// Where results go: every write of them is checked, on standard output and in the file of --output.

#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <unistd.h>

namespace tp::test {
namespace {

using nlohmann::json;

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A command line under the shell, with a redirection.
std::vector<std::string> redirected(const std::vector<std::string>& command, const std::string& redirection) {
  std::vector<std::string> whole = {"sh", "-c", "exec \"$0\" \"$@\" " + redirection};
  whole.insert(whole.end(), command.begin(), command.end());
  return whole;
}

// Every command that writes something, with the input that it needs.
struct Command {
  Arguments arguments;
  std::string input{};
  bool has_output = true;  // takes --output
};

class Output : public testing::Test {
 protected:
  std::vector<Command> commands() const {
    const std::string model = model_.path();
    const Arguments sampling = {"--greedy", "--max-tokens", "3", "--ignore-eos"};
    const auto with_sampling = [&](Arguments arguments) {
      arguments.insert(arguments.end(), sampling.begin(), sampling.end());
      return arguments;
    };
    return {
        {with_sampling({"generate", "--model", model, "--prompt", "Hi"})},
        {with_sampling({"generate", "--model", model, "--batch", "-"}), "{\"prompt\": \"Hi\"}\n"},
        {with_sampling({"chat", "--model", model, "--template", template_}), "Hi\n", false},
        {{"render-chat", "--template", template_, "--messages", "-"},
         R"({"messages": [{"role": "user", "content": "Hi"}]})"},
        {{"tokenize", "--model", model, "Hello"}},
        {{"tokenize", "--model", model}, "Hello\n"},
        {{"detokenize", "--model", model}, "[300]\n"},
        {{"perplexity", "--model", model, "--file", text_, "--threads", "1"}},
        {{"inspect", "--model", model}},
        {{"inspect", "--model", model, "--json"}},
        {{"bench", "--synthetic", config_, "--prompt", "4", "--generate", "2"}},
        {{"--help"}, "", false},
        {{"generate", "--help"}, "", false},
        {{"--version"}, "", false},
    };
  }

  std::string file(const std::string& name) const { return (directory_.path() / name).string(); }

  const TextModel model_;
  const TemporaryDirectory directory_;
  const std::string template_ = directory_.write("chat.jinja", "{{ messages[-1].content }}");
  const std::string text_ = directory_.write("text.txt", "Once upon a time");
  const std::string config_ = (fixture_folder("llama-gqa") / "config.json").string();
};

TEST_F(Output, ThatStandardOutputDoesNotTakeIsAnErrorOfEveryCommand) {
  for (const Command& command : commands()) {
    for (const auto& [redirection, reason] :
         {std::pair{"> /dev/full", "No space left on device"}, std::pair{">&-", "Bad file descriptor"}}) {
      const std::string trace = command.arguments.front() + " " + redirection;
      SCOPED_TRACE(trace);
      const auto line = redirected(command_line(kNoMpirun, command.arguments), redirection);
      const Finished finished = Process(line, {.input = command.input}).finish();
      EXPECT_EQ(finished.status, 1);
      EXPECT_CONTAINS(finished.err, std::string("tp-infer: cannot write to standard output: ") + reason);
    }
  }
}

TEST_F(Output, GoesToTheFileThatIsNamedAndReplacesWhatItHeld) {
  for (const Command& command : commands()) {
    if (!command.has_output) continue;
    SCOPED_TRACE(command.arguments.front());
    Arguments to_file = command.arguments;
    to_file.insert(to_file.end(), {"--output", directory_.write("results", std::string(100000, 'x'))});
    const Finished finished = run(kNoMpirun, to_file, {.input = command.input});
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(finished.out, "");
    const std::string content = content_of(file("results"));
    EXPECT_TRUE(content.ends_with("\n") || command.arguments.front() == "render-chat") << content;
    EXPECT_EQ(content.find("xxxxxx"), std::string::npos);
    // What measures time says something else every time.
    const bool is_timed = command.arguments.front() == "bench" || command.arguments.front() == "perplexity" ||
                          (command.arguments.size() > 3 && command.arguments[3] == "--batch");
    if (!is_timed) {
      EXPECT_EQ(content, run(kNoMpirun, command.arguments, {.input = command.input}).out);
    }
  }
}

TEST_F(Output, ThatTheFileDoesNotTakeIsAnErrorAlsoUnderMpirun) {
  for (const Command& command : commands()) {
    if (!command.has_output) continue;
    SCOPED_TRACE(command.arguments.front());
    Arguments to_full = command.arguments;
    to_full.insert(to_full.end(), {"--output", "/dev/full"});
    const bool has_ranks = command.arguments.front() == "generate" || command.arguments.front() == "bench";
    expect_one_error(run(has_ranks ? 2 : kNoMpirun, to_full, {.input = command.input}), 1,
                     "cannot write to /dev/full: No space left on device; is the disk full");
  }
}

TEST_F(Output, ToAFileThatCannotBeOpenedIsAnErrorBeforeTheModelIsLoaded) {
  for (const Command& command : commands()) {
    if (!command.has_output) continue;
    SCOPED_TRACE(command.arguments.front());
    Arguments nowhere = command.arguments;
    nowhere.insert(nowhere.end(), {"--output", "/nonexistent/results"});
    expect_one_error(run(kNoMpirun, nowhere, {.input = command.input}), 1,
                     "cannot open /nonexistent/results for the results: No such file or directory");
  }
}

TEST_F(Output, NeverReplacesItsInput) {
  const std::string requests = directory_.write("requests.jsonl", "{\"prompt\": \"Hi\"}\n");
  const std::string messages =
      directory_.write("messages.json", R"({"messages": [{"role": "user", "content": "Hi"}]})");
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"generate", "--model", model_.path(), "--batch", requests}, requests},
      {{"generate", "--model", model_.path(), "--prompt-file", text_}, text_},
      {{"perplexity", "--model", model_.path(), "--file", text_}, text_},
      {{"render-chat", "--template", template_, "--messages", messages}, messages},
      {{"tokenize", "--model", model_.path()}, text_},
      {{"detokenize", "--model", model_.path()}, text_},
  };
  for (const auto& [arguments, input] : cases) {
    SCOPED_TRACE(arguments.front());
    const std::string before = content_of(input);
    Arguments itself = arguments;
    itself.insert(itself.end(),
                  {"--output", directory_.path() / "." / std::filesystem::path(input).filename()});
    const auto line = redirected(command_line(kNoMpirun, itself), "< " + input);
    expect_one_error(Process(line).finish(), 1, "is both the input and --output");
    EXPECT_EQ(content_of(input), before);
  }
}

// A file system of 64 KiB in a mount namespace of its own, on which the command runs.
TEST_F(Output, OnAFullDiskIsAnErrorUnderMpirunAndKeepsTheWholeLinesBefore) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount a small file system";
  const std::string mount = "cd " + directory_.path().string() +
                            " && mount -t tmpfs -o size=64k none . && cd " + directory_.path().string();
  if (Process({"unshare", "--mount", "sh", "-c", mount}).finish().status != 0)
    GTEST_SKIP() << "this machine allows no mount namespace";
  std::string requests;
  for (int i = 0; i < 200; ++i) requests += "{\"prompt\": \"Hi\", \"id\": " + std::to_string(i) + "}\n";
  // What the disk holds at the end is printed on standard output.
  std::vector<std::string> command = {
      "unshare", "--mount", "sh", "-c",
      mount + " && { \"$0\" \"$@\"; status=$?; cat out.jsonl; exit $status; }"};
  const auto line = command_line(2, {"generate", "--model", model_.path(), "--batch", "-", "--ignore-eos",
                                     "--max-tokens", "20", "--output", "out.jsonl"});
  command.insert(command.end(), line.begin(), line.end());
  const Finished finished = Process(command, {.input = requests}).finish();
  EXPECT_EQ(finished.status, 1);
  EXPECT_CONTAINS(finished.err, "tp-infer: cannot write to out.jsonl: No space left on device");
  const std::string whole_lines = finished.out.substr(0, finished.out.rfind('\n') + 1);
  const std::vector<json> lines = json_lines(whole_lines);
  EXPECT_GT(lines.size(), 10U);
  EXPECT_LT(lines.size(), 200U);
}

// Such a descriptor would be taken by MPI's own pipe, and reading it would never end. Under mpirun it is
// mpirun that has lost its descriptors; the ranks have theirs.
TEST_F(Output, AndInputOfClosedDescriptorsDoNotHang) {
  const std::string model = model_.path();
  const Arguments generate = {"generate", "--model",      model, "--prompt",    "Hi",
                              "--greedy", "--max-tokens", "3",   "--ignore-eos"};
  const auto run_redirected = [](std::size_t ranks, const Arguments& arguments, const char* redirection) {
    return Process(redirected(command_line(ranks, arguments), redirection)).finish();
  };
  const std::string expected = run(kNoMpirun, generate).out;
  for (const char* redirection : {"<&-", "2>&-", "<&- 2>&-"}) {
    for (const std::size_t ranks : {kNoMpirun, std::size_t{2}}) {
      const std::string trace = std::to_string(ranks) + " ranks " + redirection;
      SCOPED_TRACE(trace);
      const Finished finished = run_redirected(ranks, generate, redirection);
      EXPECT_EQ(finished.status, 0) << finished.err;
      EXPECT_EQ(finished.out, expected);
    }
  }
  EXPECT_EQ(run_redirected(kNoMpirun, generate, "<&- >&- 2>&-").status, 1);

  const Finished nothing_said =
      run_redirected(kNoMpirun, {"chat", "--model", model, "--template", template_}, "<&-");
  EXPECT_EQ(nothing_said.status, 0) << nothing_said.err;
  EXPECT_EQ(nothing_said.out, "");
  EXPECT_EQ(run_redirected(kNoMpirun, {"tokenize", "--model", model}, "<&-").status, 0);
  expect_one_error(run_redirected(kNoMpirun, {"generate", "--model", model, "--batch", "-"}, "<&-"), 1,
                   "standard input: no requests");
}

}  // namespace
}  // namespace tp::test
