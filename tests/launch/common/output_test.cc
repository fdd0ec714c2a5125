// The output of results: every write is checked, on standard output and in the file of --output.

#include "parallel/machine/file_text.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace tp::test {
namespace {

using nlohmann::json;

// Returns a command line for the shell, with a redirection.
std::vector<std::string> redirected(const std::vector<std::string>& command, const std::string& redirection) {
  std::vector<std::string> whole = {"sh", "-c", "exec \"$0\" \"$@\" " + redirection};
  whole.insert(whole.end(), command.begin(), command.end());
  return whole;
}

// Every command that writes results, with the input that it needs.
struct WritingCommand {
  Arguments arguments;
  std::string input{};
  bool has_output = true;  // whether it has --output
};

class Output : public testing::Test {
 protected:
  std::vector<WritingCommand> commands() const {
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

  // Prints this many bytes and a newline, on standard output or to a file.
  Arguments rendering(std::size_t bytes) const {
    const std::string text(bytes, 'x');
    return {"render-chat", "--template", template_, "--messages",
            directory_.write("long.json", R"({"messages": [{"role": "user", "content": ")" + text + "\"}]}")};
  }

  std::string file(const std::string& name) const { return (directory_.path() / name).string(); }

  const TextModel model_;
  const TemporaryDirectory directory_;
  const std::string template_ = directory_.write("chat.jinja", "{{ messages[-1].content }}");
  const std::string text_ = directory_.write("text.txt", "Once upon a time");
  const std::string config_ = (fixture_folder("llama-gqa") / "config.json").string();
};

TEST_F(Output, EveryCommandReportsErrorsOfStandardOutput) {
  for (const WritingCommand& command : commands()) {
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

TEST_F(Output, ReplacesTheNamedFilesContent) {
  for (const WritingCommand& command : commands()) {
    if (!command.has_output) continue;
    SCOPED_TRACE(command.arguments.front());
    Arguments to_file = command.arguments;
    to_file.insert(to_file.end(), {"--output", directory_.write("results", std::string(100000, 'x'))});
    const Finished finished = run(kNoMpirun, to_file, {.input = command.input});
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(finished.out, "");
    const std::string content = file_text(file("results"));
    EXPECT_TRUE(content.ends_with("\n") || command.arguments.front() == "render-chat") << content;
    EXPECT_EQ(content.find("xxxxxx"), std::string::npos);
    // Commands that measure time print different results each time.
    const bool is_timed = command.arguments.front() == "bench" || command.arguments.front() == "perplexity" ||
                          (command.arguments.size() > 3 && command.arguments[3] == "--batch");
    if (!is_timed) {
      EXPECT_EQ(content, run(kNoMpirun, command.arguments, {.input = command.input}).out);
    }
  }
}

TEST_F(Output, EveryCommandReportsErrorsOfItsFileAlsoUnderMpirun) {
  for (const WritingCommand& command : commands()) {
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
  for (const WritingCommand& command : commands()) {
    if (!command.has_output) continue;
    SCOPED_TRACE(command.arguments.front());
    Arguments nowhere = command.arguments;
    nowhere.insert(nowhere.end(), {"--output", "/proc/nonexistent/results"});
    expect_one_error(run(kNoMpirun, nowhere, {.input = command.input}), 1,
                     "cannot open /proc/nonexistent/results for the results: No such file or directory");
  }
}

// Expects that the command refuses to write to the path and leaves the file unchanged.
void expect_refused(const Arguments& arguments, const std::string& option, const std::string& path,
                    const std::string& also, const std::string& input = "/dev/null") {
  SCOPED_TRACE(arguments.front() + " " + option + " " + path);
  const std::string before = file_text(path);
  Arguments itself = arguments;
  itself.insert(itself.end(), {option, std::filesystem::path(path).parent_path() / "." /
                                           std::filesystem::path(path).filename()});
  const auto line = redirected(command_line(kNoMpirun, itself), "< " + input);
  expect_one_error(Process(line).finish(), 1, "expected a separate file for " + option + ", found " + also);
  EXPECT_EQ(file_text(path), before);
}

TEST_F(Output, NeverReplacesItsInput) {
  const std::string model = model_.path();
  const std::string requests = directory_.write("requests.jsonl", "{\"prompt\": \"Hi\"}\n");
  const std::string messages =
      directory_.write("messages.json", R"({"messages": [{"role": "user", "content": "Hi"}]})");
  const std::string ids = directory_.write("ids.json", "[1, 2]");
  const std::string config = directory_.write("shape.json", file_text(config_));
  expect_refused({"generate", "--model", model, "--batch", requests}, "--output", requests,
                 "that of --batch");
  expect_refused({"generate", "--model", model, "--batch", requests}, "--trace", requests, "that of --batch");
  expect_refused({"generate", "--model", model, "--batch", requests, "--template", template_}, "--output",
                 template_, "that of --template");
  expect_refused({"generate", "--model", model, "--prompt-file", text_}, "--output", text_,
                 "that of --prompt-file");
  expect_refused({"perplexity", "--model", model, "--file", text_}, "--output", text_, "that of --file");
  expect_refused({"render-chat", "--template", template_, "--messages", messages}, "--output", messages,
                 "that of --messages");
  expect_refused({"render-chat", "--template", template_, "--messages", messages}, "--output", template_,
                 "that of --template");
  expect_refused({"logits", "--model", model, "--tokens", ids}, "--output", ids, "that of --tokens");
  expect_refused({"bench", "--synthetic", config}, "--output", config, "that of --synthetic");
  expect_refused({"tokenize", "--model", model}, "--output", text_, "standard input", text_);
  expect_refused({"detokenize", "--model", model}, "--output", text_, "standard input", text_);
}

TEST_F(Output, NeverReplacesTheModel) {
  const std::string model = model_.path();
  const std::string weights = model + "/model.safetensors";
  for (const char* option : {"--output", "--trace"})
    expect_refused({"generate", "--model", model, "--prompt", "Hi"}, option, weights, "one of the model");
  expect_refused({"bench", "--model", model}, "--output", weights, "one of the model");
  expect_refused({"inspect", "--model", model}, "--output", model + "/config.json", "one of the model");
  expect_refused({"tokenize", "--model", model, "Hi"}, "--output", model + "/tokenizer.json",
                 "one of the model");
  expect_refused({"tokenize", "--model", model + "/tokenizer.json", "Hi"}, "--output",
                 model + "/tokenizer.json", "one of the model");
  // Results may be written into the model's folder, also a second time.
  const Arguments beside = {"tokenize", "--model", model, "Hi", "--output", model + "/results.jsonl"};
  for (int time = 0; time < 2; ++time) expect_success(run(kNoMpirun, beside));
}

TEST_F(Output, AndTraceAreTwoFiles) {
  for (const bool is_there : {false, true}) {
    if (is_there) directory_.write("results", "before");
    expect_one_error(run(kNoMpirun, {"generate", "--model", model_.path(), "--prompt", "Hi", "--output",
                                     file("results"), "--trace", file("./results")}),
                     1, "expected a separate file for --trace, found that of --output");
  }
  EXPECT_EQ(file_text(file("results")), "before");
}

TEST_F(Output, KeepsTheOldFileUntilAResultExists) {
  const std::string results = directory_.write("results", "before");
  const std::string trace = directory_.write("trace", "before");
  const TemporaryDirectory broken;
  std::filesystem::copy(model_.path(), broken.path(), std::filesystem::copy_options::recursive);
  std::filesystem::resize_file(broken.path() / "model.safetensors", 100);
  for (const std::string& model : {broken.path().string(), std::string("/proc/nonexistent")}) {
    for (const char* command : {"generate", "bench"}) {
      SCOPED_TRACE(command + model);
      Arguments arguments = {command,    "--model", model,     "--prompt", "4",
                             "--output", results,   "--trace", trace};
      EXPECT_EQ(run(kNoMpirun, arguments).status, 1);
      EXPECT_EQ(file_text(results), "before");
      EXPECT_EQ(file_text(trace), "before");
    }
  }
}

TEST_F(Output, TwoJobsCannotWriteOneFile) {
  const std::string results = directory_.write("results", "before");
  const int other = ::open(results.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  const Arguments tokenize = {"tokenize", "--model", model_.path(), "Hi", "--output", results};
  expect_one_error(run(kNoMpirun, tokenize), 1,
                   "found that another job is writing it; wait until that job ends, or give another file");
  EXPECT_EQ(file_text(results), "before");
  ::close(other);
  expect_success(run(kNoMpirun, tokenize));
}

TEST_F(Output, IsCompleteEvenIfMessagesCannotBeWritten) {
  const std::string requests =
      directory_.write("requests.jsonl", "{\"id\": 1, \"prompt\": \"Hi\"}\n{\"id\": 2, \"prompt\": 3}\n");
  const auto run_unheard = [](const Arguments& arguments, const std::string& input = {}) {
    return Process(redirected(command_line(kNoMpirun, arguments), "2> /dev/full"), {.input = input}).finish();
  };
  const Finished batch =
      run_unheard({"generate", "--model", model_.path(), "--batch", requests, "--output", file("results"),
                   "--resume", "--verbose", "--max-tokens", "3", "--trace", file("trace")});
  EXPECT_EQ(batch.status, 1) << "of the second request";
  EXPECT_EQ(json_lines(file_text(file("results"))).size(), 2U);
  EXPECT_CONTAINS(file_text(file("trace")), "\n]}\n");
  const Finished chat = run_unheard({"chat", "--model", model_.path(), "--template", template_, "--greedy",
                                     "--ignore-eos", "--max-tokens", "4"},
                                    "One\nTwo\nThree\n");
  EXPECT_EQ(chat.status, 0);
  EXPECT_GE(std::count(chat.out.begin(), chat.out.end(), '\n'), 3);
}

TEST_F(Output, ToAFileThatMayNotGrowIsAnErrorLikeAFullDisk) {
  std::vector<std::string> command = {"sh", "-c", "ulimit -f 1; exec \"$0\" \"$@\""};
  const auto line = command_line(kNoMpirun, rendering(10000));
  command.insert(command.end(), line.begin(), line.end());
  command.insert(command.end(), {"--output", file("results")});
  expect_one_error(Process(command).finish(), 1, "cannot write to " + file("results") + ": File too large");
}

TEST_F(Output, WaitsForTheReaderOfANonBlockingPipe) {
  constexpr std::size_t kBytes = 100000;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  const int size = ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
  std::vector<std::string> command = {
      "bash", "-c",
      "exec \"$0\" \"$@\" >&" + std::to_string(ends[1]) + " " + std::to_string(ends[1]) + ">&-"};
  const auto line = command_line(kNoMpirun, rendering(kBytes));
  command.insert(command.end(), line.begin(), line.end());
  Process process(command);
  ::close(ends[1]);
  // Nobody reads until the pipe is full.
  ASSERT_TRUE(process.wait_for_output([&](const std::string&) {
    int waiting = 0;
    return ::ioctl(ends[0], FIONREAD, &waiting) == 0 && waiting >= size;
  }));
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  ::close(ends[0]);
  expect_success(process.finish());
  EXPECT_EQ(text, std::string(kBytes, 'x'));
}

// Runs the command on a file system of 64 KiB in a separate mount namespace.
TEST_F(Output, OnAFullDiskIsAnErrorUnderMpirunAndKeepsTheWholeLinesBefore) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount a small file system";
  const std::string mount = "cd " + directory_.path().string() +
                            " && mount -t tmpfs -o size=64k none . && cd " + directory_.path().string();
  if (Process({"unshare", "--mount", "sh", "-c", mount}).finish().status != 0)
    GTEST_SKIP() << "this machine allows no mount namespace";
  std::string requests;
  for (int i = 0; i < 200; ++i) requests += "{\"prompt\": \"Hi\", \"id\": " + std::to_string(i) + "}\n";
  // The command prints the final content of the disk's file on standard output.
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

// MPI's own pipe would get such a descriptor, and reading it would never end. Under mpirun, mpirun has lost
// its descriptors, but the ranks have theirs.
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

// Imitates mpirun of Open MPI 5, whose program is prterun. It marks the output that passes through it.
TEST(OpenMpi5, GivesRankZeroItsOwnOutputIfMarksAreNotRequested) {
  const TextModel model;
  const TemporaryDirectory folder;
  const std::string mpirun = folder.write("prterun",
                                          "#!/bin/sh\n[ \"$1\" != --output ] || shift 2\n"
                                          "export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1\n"
                                          "\"$@\" | sed 's/^/passed: /'\n");
  std::filesystem::permissions(mpirun, std::filesystem::perms::owner_all);
  const auto output_of = [&](const std::vector<std::string>& options, const std::vector<std::string>& more) {
    std::vector<std::string> command = {mpirun};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {TP_INFER_PROGRAM, "tokenize", "--model", model.path(), "Hello"});
    command.insert(command.end(), more.begin(), more.end());
    return Process(command).finish().out;
  };
  const std::string ids = run(kNoMpirun, {"tokenize", "--model", model.path(), "Hello"}).out;
  EXPECT_EQ(output_of({}, {}), ids);
  EXPECT_EQ(output_of({}, {"--output", "-"}), ids) << "the program's own option";
  EXPECT_EQ(output_of({"--output", "tag"}, {}), "passed: " + ids);
}

}  // namespace
}  // namespace tp::test
