#include "launch/generate_output.h"

#include "tp/error.h"

#include <cstdio>

namespace tp {
namespace {

void write_stdout(const std::string& text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  require<Error>(written, "cannot write to standard output; is the disk full or the reader gone?");
}

nlohmann::json logprob_entry(const TokenEvent& event) {
  nlohmann::json top = nlohmann::json::array();
  for (const TokenLogprob& other : event.top_logprobs)
    top.push_back({{"id", other.id}, {"logprob", other.logprob}});
  return {{"id", event.logprob->id}, {"logprob", event.logprob->logprob}, {"top", top}};
}

}  // namespace

void GenerateOutput::expect(std::uint64_t request, int n, std::string prompt, std::size_t prompt_tokens) {
  for (int sample = 0; sample < n; ++sample) {
    places_[{request, sample}] = continuations_.size();
    Continuation continuation;
    continuation.index = requests_;
    continuation.sample = sample;
    continuation.alone = n == 1;
    continuation.prompt = prompt;
    continuation.prompt_tokens = prompt_tokens;
    continuations_.push_back(std::move(continuation));
  }
  ++requests_;
}

void GenerateOutput::fail(const std::string& error) {
  Continuation continuation;
  continuation.index = requests_++;
  continuation.alone = true;
  continuation.finish_reason = FinishReason::error;
  continuation.error = error;
  continuations_.push_back(std::move(continuation));
  failed_ = true;
  print_ready();
}

void GenerateOutput::add(const TokenEvent& event) {
  Continuation& continuation = continuations_.at(places_.at({event.request, event.sample}));
  if (event.finish_reason != FinishReason::error) {
    if (continuation.token_ids.empty()) continuation.first_token_seconds = continuation.watch.seconds();
    continuation.token_ids.push_back(event.token);
    generated_tokens_ += 1;
  }
  continuation.text += event.text;
  if (event.logprob) continuation.logprobs.push_back(logprob_entry(event));
  continuation.finish_reason = event.finish_reason;
  continuation.error = event.error;
  continuation.seconds = continuation.watch.seconds();
  failed_ = failed_ || event.finish_reason == FinishReason::error;
  print_ready();
}

// Prints what can be printed without breaking the order.
void GenerateOutput::print_ready() {
  for (; next_ < continuations_.size(); ++next_) {
    Continuation& continuation = continuations_[next_];
    const bool finished = continuation.finish_reason != FinishReason::none;
    if (!style_.json) print_text(continuation);
    if (!finished) return;
    if (style_.json) print_json(continuation);
  }
}

void GenerateOutput::print_text(Continuation& continuation) {
  const bool finished = continuation.finish_reason != FinishReason::none;
  std::string out;
  if (!continuation.begun) {
    // Nothing is printed before there is something to print: an error may come instead.
    if (continuation.token_ids.empty() && !finished) return;
    continuation.begun = true;
    if (continuations_.size() > 1) {
      out += fmt::format("{}--- prompt {}", next_ > 0 ? "\n" : "", continuation.index + 1);
      out += continuation.alone ? " ---\n" : fmt::format(", sample {} ---\n", continuation.sample + 1);
    }
    if (style_.echo) out += continuation.prompt;
  }
  if (style_.has_text) {
    out += continuation.text.substr(continuation.printed);
    continuation.printed = continuation.text.size();
  } else if (finished) {
    out += nlohmann::json(continuation.token_ids).dump();
  }
  if (finished) out += "\n";
  if (!continuation.error.empty()) {
    fmt::print(stderr, "tp-infer: prompt {}: {}\n", continuation.index + 1, continuation.error);
  }
  write_stdout(out);
}

void GenerateOutput::print_json(const Continuation& continuation) const {
  nlohmann::json line = {{"index", continuation.index}, {"sample", continuation.sample}};
  if (!continuation.error.empty()) {
    line["error"] = continuation.error;
    line["finish_reason"] = "error";
  } else {
    const std::size_t generated = continuation.token_ids.size();
    const double decode_seconds = continuation.seconds - continuation.first_token_seconds;
    line["text"] = style_.has_text ? nlohmann::json(continuation.text) : nlohmann::json(nullptr);
    line["token_ids"] = continuation.token_ids;
    line["finish_reason"] = name_of(continuation.finish_reason);
    line["timings"] = {
        {"load_s", style_.load_seconds},
        {"prompt_tokens", continuation.prompt_tokens},
        {"generated_tokens", generated},
        {"first_token_s", continuation.first_token_seconds},
        {"decode_s", decode_seconds},
        {"decode_tokens_per_s",
         generated > 1 && decode_seconds > 0 ? static_cast<double>(generated - 1) / decode_seconds : 0.0}};
    if (!continuation.logprobs.is_null()) line["logprobs"] = continuation.logprobs;
  }
  write_stdout(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace tp
