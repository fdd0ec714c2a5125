// Writes the answer to a call, in the format of one API.
#pragma once

#include "model/files/json_text.h"
#include "runtime/api/api_call.h"
#include "runtime/api/api_error.h"
#include "runtime/api/completion.h"
#include "tp/event.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

class Engine;

// Parts of an answer's time, in seconds.
struct AnswerTimes {
  double queued = 0.0;
  double prefill = 0.0;  // from the first step to the first token
  double decode = 0.0;   // from the first token to the last
  // Rank 0's part of the steps meanwhile: computing, exchanging data with other ranks (including waiting for
  // them), and waiting alone.
  double compute = 0.0;
  double collectives = 0.0;
  double waiting = 0.0;
  std::size_t restored_tokens = 0;  // prompt tokens read from the store of prompts, and the time this took
  double restoring = 0.0;
};

// The answer to a call, so far.
struct Answer {
  std::string id{};
  std::int64_t created = 0;  // seconds since 1970
  std::string model{};
  ApiCall call{};                         // without its prompts
  std::vector<Completion> completions{};  // [prompts]
  AnswerTimes times{};

  std::size_t discarded_tokens = 0;  // generated, but not part of the best continuations

  // The continuation of an answer that has only one.
  const Continuation& continuation() const { return completions.front().continuations.front(); }
  // Sums over the completions.
  std::size_t prompt_tokens() const;
  std::size_t cached_tokens() const;
  std::size_t generated_tokens() const;
  std::size_t sum(std::size_t Continuation::*number) const;
};

// Server-sent events are returned whole, with the empty line that ends them.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  // The prefix of the answer's ids: "chatcmpl-".
  virtual const char* id_prefix() const = 0;
  // The whole answer, when all continuations have finished.
  virtual nlohmann::ordered_json body(const Answer& answer) const = 0;

  // The events of a stream: at the beginning, for a token, for the progress of a prompt, at the end. All may
  // be empty.
  virtual std::string begin(const Answer& answer) = 0;
  virtual std::string token(const Answer& answer, std::size_t prompt, const TokenEvent& event) = 0;
  virtual std::string progress(const Answer& answer, std::size_t total, std::size_t cached,
                               std::size_t processed) = 0;
  virtual std::string end(const Answer& answer) = 0;

  // The error as a body, and as the last event of a stream.
  virtual nlohmann::ordered_json error(const ApiError& error) const = 0;
  virtual std::string error_event(const ApiError& error) const = 0;
};

// OpenAI's completions and chat completions. `engine` must outlive the format, and have a tokenizer.
std::unique_ptr<AnswerFormat> make_openai_format(const Engine& engine);
// OpenAI's /v1/responses. `engine` must outlive the format; it may be null if no request asks for
// log-probabilities.
std::unique_ptr<AnswerFormat> make_responses_format(const Engine* engine = nullptr);
// Anthropic's /v1/messages.
std::unique_ptr<AnswerFormat> make_messages_format();

// An event with `data`.
std::string sse_event(const nlohmann::ordered_json& data);
std::string sse_event(const char* name, const nlohmann::ordered_json& data);

nlohmann::ordered_json openai_error(const ApiError& error);
// Whether a request expects errors in Anthropic's format. `version`: its header `anthropic-version`.
bool expects_anthropic_errors(std::string_view path, std::string_view version);
// The body of an error for a request that expects Anthropic's format, or OpenAI's.
nlohmann::ordered_json error_body(bool is_anthropic, const ApiError& error);

}  // namespace tp
