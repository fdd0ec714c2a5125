// A conversation at a terminal or from a script: messages in, answers out.
#pragma once

#include "launch/chat_input.h"
#include "launch/console.h"
#include "launch/result_output.h"
#include "launch/sampling_flags.h"
#include "runtime/text/chat_prompts.h"
#include "tp/engine.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

struct ChatOptions {
  SamplingFlags sampling;
  Console console{};
  bool reports_speed = false;  // tokens, cached tokens and speed after every answer
};

// Rank 0's part of `tp-infer chat`. Answers go to stdout, everything else to the console.
//
// Every turn renders the whole conversation and continues it. Earlier turns are found in the engine's
// prefix cache by their tokens: only new tokens are computed.
class ChatSession {
 public:
  // `conversation` is what a messages file holds: `messages`, and other members that the template uses.
  ChatSession(Engine& engine, ChatTemplate chat_template, nlohmann::ordered_json conversation,
              ChatOptions options);

  // Sets the conversation's first message, of the role system; removes it if the text is empty.
  void set_system(std::string_view text);

  // Runs until the input ends or /exit. Returns the exit status: 1 if a message could not be answered.
  int run();

 private:
  enum class Next { go_on, leave };

  struct Answer {
    std::string text;
    std::vector<TokenId> ids;
    std::size_t cached_tokens = 0;  // of the prompt
    FinishReason reason = FinishReason::none;
  };

  // Of several lines only a system message is one: what is pasted may begin with a slash.
  static bool is_command(std::string_view message);
  Next obey(std::string_view line);
  void save(const std::string& path);
  void reset();

  void say(const std::string& text);
  void answer();
  // Prints the continuation of a prompt as it comes.
  Answer stream(Request request);
  void report(const Answer& answer, std::size_t prompt_tokens, std::size_t max_tokens, double seconds) const;
  // The tokens of a rendered conversation: of what was said before, those that are in the cache.
  std::vector<TokenId> encode(const MarkedText& text) const;
  void remember(MarkedText prompt, std::vector<TokenId> ids, const Answer& answer);
  // Reports to the user what went wrong with a message.
  void complain(std::string_view error);
  nlohmann::ordered_json& messages() { return conversation_.at("messages"); }

  Engine& engine_;
  ChatPrompts prompts_;
  nlohmann::ordered_json conversation_;
  ChatOptions options_;
  // The last prompt with its answer, as text and as tokens. The same text could be other tokens: a model does
  // not always choose those that a tokenizer would.
  MarkedText said_;
  std::vector<TokenId> said_ids_;
  std::unique_ptr<ChatInput> input_;
  ResultOutput output_;
  bool failed_ = false;
};

}  // namespace tp
