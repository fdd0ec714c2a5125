// Writes generated text.
#pragma once

#include "launch/common/result_output.h"
#include "runtime/api/completion.h"
#include "tp/engine.h"
#include "tp/rank_report.h"
#include "tp/request.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

struct OutputStyle {
  bool json = false;      // one object per line; otherwise text
  bool unmasked = false;  // JSON: a line for every pass of a diffusion language model
  bool headings = false;  // text: a line before each continuation
  std::string model{};    // the model's name in answers of OpenAI's form
};

// Collects the tokens of many requests and writes the results. JSON is written as results complete: one line
// per continuation, or per request in OpenAI's form. Texts are written in the order of the requests, and the
// next one is streamed.
class GenerateOutput {
 public:
  // All arguments must outlive this object.
  GenerateOutput(ResultOutput& file, const Engine& engine, OutputStyle style)
      : file_(file), engine_(engine), style_(std::move(style)) {}

  // [samples] Whether an earlier run has already written the sample.
  using Written = std::vector<bool>;

  // Each of these three functions records the next request in order. `id` is the engine's id of the request.
  void expect(std::uint64_t id, Completion completion, Written written);
  // Records that the request failed with this error.
  void fail(const AnswerFacts& facts, const std::string& error);
  // Records that the request needs no answer.
  void skip() { ++requests_; }

  // Sets the time of the next requests or events, in seconds since any fixed point.
  void set_now(double seconds) { now_ = seconds; }
  // Sets the times of the activities since that point, for JSON.
  void set_time(const TimeParts& time) { time_ = time; }
  // Whether any event begins or ends a continuation. The caller must then call set_time().
  bool begins_or_ends(const std::vector<Event>& events) const;
  void add(const TokenEvent& event);
  void add(const PromptLogprobs& logprobs);
  // Writes the answer to a request that asked for no tokens.
  void add(const RequestFinished& finished);
  // Adds the tokens that a pass of a diffusion language model has unmasked.
  void add(const TokensUnmasked& unmasked);

  // With JSON, whose lines carry the errors, says on stderr that there are any.
  void report_failures() const;

  std::size_t unfinished_requests() const { return answers_.size(); }
  std::size_t finished_requests() const { return requests_ - answers_.size(); }
  std::size_t failed_requests() const { return failed_requests_; }
  std::size_t generated_tokens() const { return generated_tokens_; }

  // Tokens of finished requests' prompts, and how many of them were not computed.
  struct PromptTokens {
    std::size_t all = 0;
    std::size_t cached = 0;    // found in the cache
    std::size_t restored = 0;  // read from the store; also counted as cached
  };
  const PromptTokens& prompt_tokens() const { return prompt_tokens_; }

 private:
  struct Moment {
    double seconds = 0.0;
    TimeParts time{};
  };

  // State of one request.
  struct Answer {
    std::size_t index = 0;  // position of the request in the input
    Written written{};
    Completion completion{};
    Moment submitted{};
    std::vector<Moment> first_tokens{};  // [samples] time of each continuation's first token
    std::vector<std::size_t> passes{};   // [samples] passes of a diffusion language model
    bool failed = false;
    // For text: the current continuation, and how many of its bytes are written.
    std::size_t writing = 0;
    std::size_t written_bytes = 0;
    bool begun = false;
  };

  Moment now() const { return {now_, time_}; }
  void write_texts();
  void write_text(Answer& answer);
  std::string heading_of(const Answer& answer);
  void write_line(const Answer& answer, std::size_t sample) const;
  nlohmann::json timings_of(const Answer& answer, std::size_t sample) const;
  void write_openai_line(const Answer& answer) const;
  void write_json(const nlohmann::ordered_json& line) const;

  ResultOutput& file_;
  const Engine& engine_;
  OutputStyle style_;
  std::map<std::uint64_t, Answer> answers_;  // unfinished requests by id, in the order of the input
  std::size_t requests_ = 0;
  std::size_t failed_requests_ = 0;
  std::size_t generated_tokens_ = 0;
  PromptTokens prompt_tokens_;
  double now_ = 0.0;
  TimeParts time_;
  bool headed_ = false;  // a heading has been written
};

}  // namespace tp
