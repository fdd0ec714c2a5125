// How generated text leaves the program.
#pragma once

#include "launch/prompts.h"
#include "launch/result_output.h"
#include "tp/rank_report.h"
#include "tp/request.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace tp {

struct OutputStyle {
  bool json = false;     // one object a line; else text
  bool echo = true;      // text: the prompt before its continuation
  bool has_text = true;  // the model has a tokenizer; without one, text is a list of ids
  double load_seconds = 0.0;
};

// Collects the tokens of many continuations and prints these in the order in which they were asked for. A
// text that is next in order is printed as it comes.
class GenerateOutput {
 public:
  GenerateOutput(ResultOutput& file, OutputStyle style) : file_(file), style_(style) {}

  // A request, submitted under `id`, whose n continuations come next in order.
  void expect(std::uint64_t id, const Prompt& prompt, const Request& request);
  // A request that was not accepted.
  void fail(const Prompt& prompt, const std::string& error);
  // When the events to be added came, in seconds since the first request.
  void set_now(double seconds) { now_ = seconds; }
  // Whether a continuation begins or ends with one of these: then its JSON needs to know where the time went.
  bool begins_or_ends(const std::vector<TokenEvent>& events) const;
  // Where it went since the first request.
  void set_time(const TimeParts& time) { time_ = time; }
  void add(const TokenEvent& event);
  // With JSON, whose lines carry the errors, says on stderr that there are any.
  void report_failures() const;

  std::size_t failed_requests() const { return failed_requests_.size(); }
  std::size_t generated_tokens() const { return generated_tokens_; }

 private:
  struct Continuation {
    std::size_t index = 0;  // of the request, in the order given
    nlohmann::json id;      // the user's name for it
    int sample = 0;
    bool alone = false;                         // the only one of its request
    std::shared_ptr<const std::string> prompt;  // of all samples
    std::size_t prompt_tokens = 0;
    std::shared_ptr<const nlohmann::json> sampling;  // the settings in force, of all samples
    std::string text;
    std::vector<TokenId> token_ids;
    nlohmann::json logprobs;
    std::size_t printed = 0;  // bytes of text
    bool begun = false;       // its prompt is printed
    FinishReason finish_reason = FinishReason::none;
    std::string error;
    double first_token_seconds = 0.0;
    double seconds = 0.0;
    TimeParts first_token_time;
    TimeParts time;
  };

  void print_ready();
  void print_text(Continuation& continuation);
  std::string heading_of(const Continuation& continuation);
  void print_json(const Continuation& continuation) const;

  ResultOutput& file_;
  OutputStyle style_;
  std::vector<Continuation> continuations_;
  std::map<std::pair<std::uint64_t, int>, std::size_t> places_;
  std::size_t requests_ = 0;
  std::size_t next_ = 0;  // to be printed
  std::size_t generated_tokens_ = 0;
  double now_ = 0.0;
  TimeParts time_;
  bool headed_ = false;                    // a heading is printed
  std::set<std::size_t> failed_requests_;  // indices
};

}  // namespace tp
