// A conversation at a terminal or from a script: messages in, answers out.
#pragma once

#include "launch/chat/chat_backend.h"
#include "launch/chat/chat_input.h"
#include "launch/common/console.h"
#include "launch/common/result_output.h"
#include "launch/ranks/distinct_files.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tp {

struct ChatOptions {
  Console console{};
  std::string model_name{};    // for the first line at a terminal
  bool is_plain = false;       // at a terminal, answers look as in a file
  bool reports_speed = false;  // tokens, cached tokens and speed after every answer
  UsedFiles files{};           // files that /save must not replace
};

// Answers go to stdout, everything else to the console.
class ChatSession {
 public:
  // `conversation` is the content of a messages file: `messages`, and other members for the template.
  // `backend` must outlive this object.
  ChatSession(ChatBackend& backend, nlohmann::ordered_json conversation, ChatOptions options);

  // Sets the conversation's first message, of the role system; removes it if the text is empty.
  void set_system(std::string_view text);

  // Runs until the input ends or /exit. Returns the exit status: 1 if a message could not be answered.
  int run();

 private:
  enum class Next { go_on, leave };

  // Multi-line input is a command only for /system, because pasted text may begin with a slash.
  static bool is_command(std::string_view message);
  Next obey(std::string_view line);
  // Prints the model, its context and how to get help, for a person.
  void greet() const;
  void save(const std::string& path);
  void load(const std::string& path);
  // Changes a setting, "temperature 0.2", or lists all settings.
  void change(const std::string& setting);
  // Replaces the last answer; keeps it if there is no other one.
  void answer_again();
  // A conversation that was loaded may wait for its answer.
  void answer_open_message();
  void reset();

  // Adds a user message. After a tool call, the text is the call's result.
  void say(const std::string& text);
  // Returns the first call in the last answer that has no result yet, or null.
  const nlohmann::ordered_json* open_call() const;
  void ask_for_result() const;
  void answer();
  // Prints the answer as it arrives.
  ChatAnswer stream();
  void report(const ChatAnswer& answer, double seconds) const;
  // Reports an error of a message to the user.
  void complain(std::string_view error);
  nlohmann::ordered_json& messages() { return conversation_.at("messages"); }
  const nlohmann::ordered_json& messages() const { return conversation_.at("messages"); }

  ChatBackend& backend_;
  nlohmann::ordered_json conversation_;
  ChatOptions options_;
  std::unique_ptr<ChatInput> input_;
  ResultOutput output_;
  bool failed_ = false;
};

}  // namespace tp
