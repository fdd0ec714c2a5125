// tp-infer chat, driven like a person at a terminal.
#include "tests/launch/program.h"
#include "tests/launch/text_model.h"

#include <gtest/gtest.h>

namespace tp::test {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* kUp = "\x1b[A";
constexpr const char* kDown = "\x1b[B";
constexpr const char* kLeft = "\x1b[D";
constexpr const char* kControlC = "\x03";
constexpr const char* kControlD = "\x04";

// Each test starts a model that answers nonsense to the last message.
class ChatTerminal : public testing::Test {
 protected:
  std::vector<std::string> chat(const Arguments& more, std::size_t ranks = kNoMpirun) const {
    Arguments arguments = {"chat",    "--model",  model_.path(),  "--template",
                           template_, "--greedy", "--ignore-eos", "--max-tokens"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return command_line(ranks, arguments);
  }

  // A locale without UTF-8, and no settings of libedit from the person who runs the test.
  StartOptions options(const std::string& no_color = "") const {
    return {.keep_input_open = true,
            .on_terminal = true,
            .variables = {"TERM=xterm", "LC_ALL=C", "HOME=" + directory_.path().string(),
                          "NO_COLOR=" + no_color}};
  }

  std::string saved() const { return (directory_.path() / "saved.json").string(); }

  Texts said() const {
    Texts texts;
    const nlohmann::json conversation = read_json(saved());
    for (const nlohmann::json& message : conversation.at("messages")) {
      if (message.at("role") == "user") texts.push_back(message.at("content"));
    }
    return texts;
  }

  const TextModel model_;
  const TemporaryDirectory directory_;
  const std::string template_ = directory_.write("chat.jinja", "{{ messages[-1].content }}");
};

// A person at the terminal, who types when the program prompts.
class Person {
 public:
  Person(const std::vector<std::string>& command, const StartOptions& options) : process_(command, options) {}

  void type(const std::string& keys) {
    const auto is_prompted = [&](const std::string& out) {
      return out.size() > seen_ && out.ends_with("> ");
    };
    ASSERT_TRUE(process_.wait_for_output(is_prompted)) << "no prompt for " << keys;
    type_at_once(keys);
  }

  void wait_for_end(const std::string& text) {
    ASSERT_TRUE(process_.wait_for_output([&](const std::string& out) { return out.ends_with(text); }));
  }

  // Waits for a part of an answer.
  void wait_for_answer() {
    ASSERT_TRUE(process_.wait_for_output([&](const std::string& out) { return out.size() > seen_ + 30; }));
  }

  void type_at_once(const std::string& keys) {
    process_.wait_for_output([&](const std::string& out) {
      seen_ = out.size();
      return true;
    });
    process_.write_input(keys);
  }

  // Saves the conversation and leaves.
  Finished leave(const std::string& saved) {
    type("/save " + saved + "\n");
    type(kControlD);
    Finished finished = process_.finish();
    EXPECT_EQ(finished.status, 0) << finished.out;
    return finished;
  }

 private:
  Process process_;
  std::size_t seen_ = 0;  // size of the screen's text at the last input
};

TEST_F(ChatTerminal, KeysEditTheLineAndNeverReachTheModel) {
  Person person(chat({"3"}), options());
  person.type(std::string("Helo") + kLeft + "l\n");
  person.type("caf\u00e9 \u4f60\u597d \U0001f600" + std::string(kLeft) + "!\n");
  // F5, Page Up, Shift with an arrow, two kinds of F1, Insert, and a focus report.
  person.type("a\x1b[15~\x1b[5~b\x1b[1;2A\x1bOP\x1b[[A\x1b[2~\x1b[Ic\n");
  // Home, Delete, End, Backspace, and one word back.
  person.type("xabcd\x1b[H\x1b[3~\x1b[F\x7f!\n");
  person.type("two words\x1b[1;5DW\n");
  person.leave(saved());
  EXPECT_EQ(said(), (Texts{"Hello", "caf\u00e9 \u4f60\u597d !\U0001f600", "abc", "abc!", "two Wwords"}));
}

TEST_F(ChatTerminal, RemembersEarlierInput) {
  Person person(chat({"3"}), options());
  person.type("first\n");
  person.type("second\n");
  person.type(std::string(kUp) + kUp + "!\n");
  person.type(std::string(kUp) + kUp + kDown + "?\n");
  person.leave(saved());
  EXPECT_EQ(said(), (Texts{"first", "second", "first!", "first!?"}));
}

TEST_F(ChatTerminal, APasteOfSeveralLinesIsOneMessage) {
  Person person(chat({"3"}), options());
  person.type("See:\x1b[200~one\r\ntwo\rthree\x1b[31m\n\x1b[201~ end\n");
  person.type("\x1b[200~/* a comment\n// another */\n\x1b[201~\n");
  person.type("\x1b[200~/system Be\nkind.\x1b[201~\n");
  person.type("by hand\x1b\nwith Alt-Enter\n");
  person.type(std::string(kUp) + "!\n");
  person.leave(saved());
  EXPECT_EQ(said(), (Texts{"See:one\ntwo\nthree\n end", "/* a comment\n// another */",
                           "by hand\nwith Alt-Enter", "by hand\nwith Alt-Enter!"}));
  EXPECT_EQ(read_json(saved()).at("messages").at(0).at("content"), "Be\nkind.");
}

TEST_F(ChatTerminal, EnterStopsAnAnswerAndOtherKeysDoNot) {
  Person person(chat({"3500"}), options());
  person.type("Hi\n");
  person.wait_for_answer();
  person.type_at_once(kUp);
  person.wait_for_answer();
  person.type_at_once(std::string(kUp) + "\x1b[15~\n");
  person.type(std::string("/reset\n"));
  const Finished finished = person.leave(saved());
  EXPECT_CONTAINS(finished.out, "(stopped)");
  EXPECT_EQ(finished.out.find("^["), std::string::npos) << "keys are not shown in the midst of an answer";
  EXPECT_EQ(said(), Texts());
}

TEST_F(ChatTerminal, ControlCStopsAnAnswerAndGivesUpALine) {
  Person person(chat({"3500"}), options());
  person.type("Hi\n");
  person.wait_for_answer();
  person.type_at_once(kControlC);
  person.type(std::string("given up") + kControlC);
  const Finished finished = person.leave(saved());
  EXPECT_CONTAINS(finished.out, "(stopped)");
  EXPECT_CONTAINS(finished.out, "(/exit or Ctrl-D leaves)");
  EXPECT_EQ(said(), Texts{"Hi"});
}

TEST_F(ChatTerminal, KeysTypedDuringAnAnswerBeginTheNextMessage) {
  Person person(chat({"3500"}), options());
  person.type("Hi\n");
  person.wait_for_answer();
  person.type_at_once("typed ");
  person.wait_for_answer();  // Ctrl-C makes the terminal drop unread input
  person.type_at_once(kControlC);
  person.wait_for_end("> typed ");
  person.type_at_once("ahead\n");
  person.wait_for_answer();
  person.type_at_once(kControlC);
  const Finished finished = person.leave(saved());
  EXPECT_EQ(said(), (Texts{"Hi", "typed ahead"})) << finished.out;
}

TEST_F(ChatTerminal, DimsNotesIfColoursAreOn) {
  for (const std::string no_color : {"", "1"}) {
    Person person(chat({"3", "--verbose"}), options(no_color));
    person.type("Hi\n");
    const Finished finished = person.leave(saved());
    EXPECT_CONTAINS(finished.out, no_color.empty() ? "\x1b[2m(prompt of 2 tokens" : "\n(prompt of 2 tokens");
    EXPECT_EQ(finished.out.find("\x1b[2m") == std::string::npos, !no_color.empty()) << finished.out;
  }
}

TEST_F(ChatTerminal, ExplainsThatEachLineIsAMessageUnderMpirun) {
  Person person(chat({"3"}, 2), options());
  person.type("Hello\n");
  person.type(std::string("arrows") + kUp + kLeft + "\n");
  person.type(std::string(kUp) + kLeft + "\x1bOP\n");
  const Finished finished = person.leave(saved());
  EXPECT_EQ(said(), (Texts{"Hello", "arrows"}));
  EXPECT_CONTAINS(finished.out,
                  "under mpirun each line is a message; to edit lines, run `mpirun ... tp-infer serve`");
  EXPECT_CONTAINS(finished.out, "`tp-infer chat --server http://127.0.0.1:8080`");
  EXPECT_CONTAINS(finished.out, "; /help lists commands");
}

TEST_F(ChatTerminal, TheFirstLineNamesTheModelItsContextAndHelp) {
  Person person(chat({"3"}), options("1"));
  const Finished finished = person.leave(saved());
  EXPECT_CONTAINS(finished.out, std::filesystem::path(model_.path()).filename().string() + ", context of ");
  EXPECT_CONTAINS(finished.out, " tokens; /help lists commands");
}

}  // namespace
}  // namespace tp::test
