// tp-infer chat, driven through pipes like a person or a script.
#include "tests/expect_contains.h"
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <regex>
#include <utility>

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using nlohmann::json;

// Messages end with a control token, like in real models' templates.
constexpr const char* kDemoTemplate =
    "{{ bos_token }}{% for m in messages %}{{ m.content }}"
    "{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}\n";

// The demo model with a template that makes it continue stories.
class Chat : public testing::Test {
 protected:
  Arguments arguments(const Arguments& more = {}) const {
    Arguments all = {"chat", "--template", template_, "--greedy", "--max-tokens", "40"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Finished chat(const std::string& input, const Arguments& more = {}, std::size_t ranks = kNoMpirun) const {
    return run(ranks, arguments(more), {.input = input});
  }

  std::string file(const std::string& name) const { return (directory_.path() / name).string(); }

  const TemporaryDirectory directory_;
  const std::string template_ = directory_.write("chat.jinja", kDemoTemplate);
};

TEST_F(Chat, ContinuesTheRenderedTextOnSeveralRanks) {
  // `generate` adds BOS, but the template has already written it. BOS must not occur twice.
  const std::string expected = run(kNoMpirun, {"generate", "--prompt", "Once upon a time", "--no-echo",
                                               "--greedy", "--max-tokens", "40"})
                                   .out;
  ASSERT_GT(expected.size(), 40U);
  for (const std::size_t ranks : {kNoMpirun, std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
    const Finished finished = chat("Once upon a time\n", {}, ranks);
    EXPECT_EQ(finished.status, 0) << finished.err;
    EXPECT_EQ(finished.out, expected) << ranks << " ranks";
    EXPECT_CONTAINS(finished.err, "stopped after 40 tokens");
  }
}

TEST_F(Chat, ComputesOnlyTheNewTokensOfEachTurn) {
  // The second model generates nonsense, with tokens that its tokenizer would not choose for the same text.
  const TextModel nonsense;
  for (const Arguments& model : {Arguments{}, Arguments{"--model", nonsense.path()}}) {
    Arguments more = {"-v", "--ignore-eos"};
    more.insert(more.end(), model.begin(), model.end());
    const Finished finished = chat("Once upon a time\n The next day\n And then\n", more);
    EXPECT_EQ(finished.status, 0);
    const std::regex report("prompt of ([0-9]+) tokens, ([0-9]+) of them cached; 40 tokens");
    std::size_t computed = 0;  // tokens computed in earlier turns: all except the last token of each answer
    std::size_t turns = 0;
    for (std::sregex_iterator found(finished.err.begin(), finished.err.end(), report), end; found != end;
         ++found) {
      constexpr std::size_t kBlock = 32;  // a partial block is computed again
      EXPECT_EQ(std::stoul((*found)[2]), computed / kBlock * kBlock) << finished.err;
      computed = std::stoul((*found)[1]) + 40 - 1;
      ++turns;
    }
    EXPECT_EQ(turns, 3U) << finished.err;
  }
}

TEST_F(Chat, SavesFilesForRenderChatAndLoad) {
  const std::string saved = file("saved.json");
  const Finished first = chat("/system Be kind. \nOnce upon a time\n//not a command\n/save " + saved + "\n");
  EXPECT_EQ(first.status, 0) << first.err;
  const std::vector<std::string> answers = lines_of(first.out);
  ASSERT_EQ(answers.size(), 2U);
  const json conversation = read_json(saved);
  const json expected = {{{"role", "system"}, {"content", "Be kind."}},
                         {{"role", "user"}, {"content", "Once upon a time"}},
                         {{"role", "assistant"}, {"content", answers[0]}},
                         {{"role", "user"}, {"content", "/not a command"}},
                         {{"role", "assistant"}, {"content", answers[1]}}};
  EXPECT_EQ(conversation.at("messages"), expected);
  const Finished rendered = run(kNoMpirun, {"render-chat", "--template", template_, "--messages", saved});
  EXPECT_EQ(rendered.out, "Be kind.Once upon a time" + answers[0] + "/not a command" + answers[1]);

  // A loaded question gets an answer.
  json unanswered = conversation;
  unanswered.at("messages").erase(4);
  const Finished loaded = chat("", {"--load", directory_.write("unanswered.json", unanswered.dump())});
  EXPECT_EQ(loaded.status, 0);
  EXPECT_EQ(loaded.out, answers[1] + "\n");
}

TEST_F(Chat, ResetForgetsAllButTheSystemMessage) {
  const Finished finished = chat("Once upon a time\n Then\n/reset\nOnce upon a time\n");
  const std::vector<std::string> answers = lines_of(finished.out);
  ASSERT_EQ(answers.size(), 3U) << finished.out;
  EXPECT_EQ(answers[2], answers[0]);
  EXPECT_NE(answers[1], answers[0]);
  const std::string saved = file("saved.json");
  chat("Hello\n/reset\n/save " + saved, {"--system", "Be kind."});
  EXPECT_EQ(read_json(saved).at("messages"), json({{{"role", "system"}, {"content", "Be kind."}}}));
  chat("/system\n/save " + saved, {"--system", "Be kind."});
  EXPECT_EQ(read_json(saved).at("messages"), json::array());
}

TEST_F(Chat, EndsAtExitAndAtTheEndOfTheInput) {
  const Finished finished = chat("/help\n/exit\nnever read\n", {}, 2);
  EXPECT_EQ(finished.status, 0);
  EXPECT_EQ(finished.out, "");
  EXPECT_CONTAINS(finished.err, "/save FILE");
  EXPECT_EQ(chat("").status, 0);
}

TEST_F(Chat, CommandsHaveAliasesAndNearMissesAreSuggested) {
  for (const char* exit : {"/quit", "/q", "/bye"})
    EXPECT_EQ(chat(std::string(exit) + "\nnever read\n").out, "") << exit;
  EXPECT_CONTAINS(chat("/?\n").err, "/save FILE");
  for (const auto& [command, advice] : {std::pair("/rest", "did you mean /reset?"),
                                        {"/hlep", "did you mean /help?"},
                                        {"/temperature 0.2", "did you mean /set temperature 0.2?"},
                                        {"/undo", "/help lists them"}}) {
    const Finished finished = chat(std::string(command) + "\n");
    EXPECT_EQ(finished.status, 1);
    EXPECT_CONTAINS(finished.err, advice);
  }
}

TEST_F(Chat, AgainReplacesTheLastAnswer) {
  const std::string saved = file("saved.json");
  const Finished finished =
      chat("/again\nOnce upon a time\n/set max-tokens 3\n/again\n/save " + saved + "\n");
  EXPECT_CONTAINS(finished.err, "there is no answer to replace");
  const std::vector<std::string> answers = lines_of(finished.out);
  ASSERT_EQ(answers.size(), 2U) << finished.out;
  EXPECT_TRUE(answers[0].starts_with(answers[1])) << finished.out;
  const json messages = read_json(saved).at("messages");
  ASSERT_EQ(messages.size(), 2U) << messages;
  EXPECT_EQ(messages.at(1).at("content"), answers[1]);
}

TEST_F(Chat, LoadContinuesASavedConversation) {
  const std::string saved = file("saved.json");
  chat("Once upon a time\n/save " + saved + "\n");
  const std::string expected = lines_of(chat("Then\n", {"--load", saved}).out).at(0);
  const Finished finished = chat("something else\n/load " + saved + "\nThen\n/load\n/load nowhere\n");
  EXPECT_EQ(lines_of(finished.out).at(1), expected);
  EXPECT_CONTAINS(finished.err, "2 messages are from " + saved);
  EXPECT_CONTAINS(finished.err, "expected /load FILE, found no FILE");
  EXPECT_CONTAINS(finished.err, "nowhere");
}

TEST_F(Chat, LoadRejectsCallsWithoutNames) {
  const std::string saved = file("calls.json");
  std::ofstream(saved) << R"({"messages": [{"role": "user", "content": "u"},
                                           {"role": "assistant", "content": "a", "tool_calls": [{"id": "x"}]}]})";
  const Finished finished = chat("/load " + saved + "\nOnce upon a time\n");
  EXPECT_CONTAINS(finished.err, "expected an `id` and a `function.name` in each of `tool_calls`");
  EXPECT_EQ(lines_of(finished.out).size(), 1U) << finished.out;
}

TEST_F(Chat, SettingsAreThoseOfTheOptions) {
  EXPECT_CONTAINS(chat("/set\n").err, "settings: max-tokens, greedy, temperature, top-k");
  for (const auto& [setting, advice] : {std::pair("temprature 1", "did you mean temperature?"),
                                        {"temp 1", "there is no setting temp; here it is temperature"},
                                        {"temperature warm", "--temperature: expected a number, found warm"},
                                        {"top_p 2", "`top_p` is 2, expected a number in (0, 1]"},
                                        {"seed", "expected /set seed VALUE, found no value"}}) {
    const Finished finished = chat(std::string("/set ") + setting + "\n");
    EXPECT_EQ(finished.status, 1) << setting;
    EXPECT_CONTAINS(finished.err, advice);
  }
  const std::string question = "Once upon a time\n";
  EXPECT_EQ(chat("/set temperature 2\n/set greedy\n" + question).out, chat(question).out);
  EXPECT_EQ(chat("/set temperature 2\n/set seed 7\n" + question).out,
            run(kNoMpirun,
                {"chat", "--template", template_, "--temperature", "2", "--seed", "7", "--max-tokens", "40"},
                {.input = question})
                .out);
}

TEST_F(Chat, AMessageThatCannotBeAnsweredIsForgotten) {
  std::string long_message;
  for (int i = 0; i < 1200; ++i) long_message += "word ";
  const Finished finished = chat(long_message + "\n/nonsense\nOnce upon a time\n");
  EXPECT_EQ(finished.status, 1) << "a script sees that something went wrong";
  EXPECT_CONTAINS(finished.err, "but the model's context holds 1024; /reset begins a new one");
  EXPECT_CONTAINS(finished.err, "unknown command /nonsense");
  EXPECT_EQ(finished.out, chat("Once upon a time\n").out);
}

TEST_F(Chat, ReportsAFullContext) {
  const Finished finished =
      chat("Once upon a time\n Then\n", {"--max-length", "60", "--max-tokens", "100", "--ignore-eos"});
  EXPECT_CONTAINS(finished.err, "the context of 60 tokens is full: /reset");
  EXPECT_CONTAINS(finished.err, "but the model's context holds 60; /reset begins a new one");
}

TEST_F(Chat, NeedsAChatTemplate) {
  const TextModel without_template;
  for (const std::size_t ranks : {kNoMpirun, std::size_t{2}})
    expect_one_error(run(ranks, {"chat", "--model", without_template.path()}), 1,
                     "found none; give one with --template FILE");
  expect_one_error(chat("", {"--n", "2"}), 2, "there is no option --n here");
  expect_one_error(chat("", {"--load", file("absent")}), 1, "cannot read");
}

// Begins an answer that takes minutes, so that something can happen meanwhile.
Process begin_long_answer(const TextModel& model, const std::string& chat_template, std::size_t ranks) {
  return Process(command_line(ranks, {"chat", "--model", model.path(), "--template", chat_template,
                                      "--greedy", "--ignore-eos", "--max-tokens", "3500"}),
                 {.keep_input_open = true});
}

void expect_stopped(Process& process) {
  // The conversation continues.
  process.write_input("/help\n/exit\n");
  const Finished finished = process.finish();
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_CONTAINS(finished.err, "(stopped)");
  EXPECT_CONTAINS(finished.err, "/save FILE");
  EXPECT_TRUE(finished.out.ends_with("\n"));
}

class StoppedChat : public testing::TestWithParam<std::size_t> {
 protected:
  const TextModel model_;
  const TemporaryDirectory directory_;
  const std::string template_ = directory_.write("chat.jinja", "{{ messages[-1].content }}");
};

TEST_P(StoppedChat, AnEmptyLineStopsTheAnswer) {
  Process process = begin_long_answer(model_, template_, GetParam());
  process.write_input("Hi\n");
  ASSERT_TRUE(process.wait_for_output(has_begun));
  process.write_input("\n");
  expect_stopped(process);
}

TEST_P(StoppedChat, ASignalStopsTheAnswer) {
  Process process = begin_long_answer(model_, template_, GetParam());
  process.write_input("Hi\n");
  ASSERT_TRUE(process.wait_for_output(has_begun));
  ASSERT_EQ(::kill(process.pid(), GetParam() == kNoMpirun ? SIGINT : SIGUSR1), 0);
  expect_stopped(process);
}

INSTANTIATE_TEST_SUITE_P(OverRanks, StoppedChat, testing::Values(kNoMpirun, 1, 3));

TEST(ChatScript, AnEmptyLineThatWasThereBeforeStopsNothing) {
  const TextModel model;
  const TemporaryDirectory directory;
  const std::string chat_template = directory.write("chat.jinja", "{{ messages[-1].content }}");
  const Finished finished = run(2,
                                {"chat", "--model", model.path(), "--template", chat_template, "--greedy",
                                 "--ignore-eos", "--max-tokens", "300"},
                                {.input = "Hi\n\n\nHi\n"});
  EXPECT_EQ(finished.status, 0);
  EXPECT_EQ(finished.err.find("(stopped)"), std::string::npos) << finished.err;
}

// The model's configuration doesn't name the token that ends a message, but the template shows it.
TEST(ChatStop, TheTokenAfterAnAnswerEndsIt) {
  const TextModel model;
  const TemporaryDirectory directory;
  // Nearly uniform draws, so control tokens occur, too.
  const Arguments sampling = {"--temperature", "50", "--seed", "5", "--max-tokens", "3000"};
  Arguments generate = {"generate", "--model", model.path(), "--prompt", "Hi", "--json", "--ignore-eos"};
  generate.insert(generate.end(), sampling.begin(), sampling.end());
  const json ids = json_lines(run(kNoMpirun, generate).out).at(0).at("token_ids");
  const json tokenizer = read_json(std::filesystem::path(model.path()) / "tokenizer.json");
  for (std::size_t i = 5; i < ids.size(); ++i) {
    for (const json& token : tokenizer.at("added_tokens")) {
      if (!token.at("special").get<bool>() || token.at("id") != ids[i] || token.at("id") == 1) continue;
      const bool is_first =
          std::find(ids.begin(), ids.end(), ids[i]) == ids.begin() + static_cast<std::ptrdiff_t>(i);
      const bool after_eos = std::find(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i), json(1)) !=
                             ids.begin() + static_cast<std::ptrdiff_t>(i);
      if (!is_first || after_eos) continue;
      const std::string chat_template = directory.write(
          "chat.jinja",
          "{{ bos_token }}{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %} " +
              token.at("content").get<std::string>() + "{% endif %}{% endfor %}");
      Arguments chat = {"chat", "-v", "--model", model.path(), "--template", chat_template};
      chat.insert(chat.end(), sampling.begin(), sampling.end());
      const Finished finished = run(kNoMpirun, chat, {.input = "Hi\n"});
      EXPECT_CONTAINS(finished.err, "; " + std::to_string(i + 1) + " tokens in");
      return;
    }
  }
  FAIL() << "no control token came up; take another seed";
}

}  // namespace
}  // namespace tp::test
