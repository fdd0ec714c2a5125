#include "launch/generate/generate_run.h"

#include "launch/options/chat_templates.h"
#include "runtime/api/engine_request.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace tp {

GenerateRun::GenerateRun(Engine& engine, RequestSource& source, GenerateOutput& output,
                         GenerateSettings settings)
    : engine_(engine), source_(source), output_(output), settings_(std::move(settings)) {}

void GenerateRun::run() {
  engine_.reset_statistics();
  watch_.restart();
  if (settings_.shows_progress) bar_.emplace("generating");
  while (true) {
    take_requests();
    if (!engine_.has_work()) return bar_.reset();
    show_progress();
    engine_.step();
    add(std::exchange(events_, {}));
  }
}

void GenerateRun::add(const std::vector<Event>& events) {
  output_.set_now(watch_.seconds());
  if (settings_.reports_times && output_.begins_or_ends(events))
    output_.set_time(mean_time(engine_.reports()));
  for (const Event& event : events) {
    if (const auto* token = std::get_if<TokenEvent>(&event)) output_.add(*token);
    if (const auto* settled = std::get_if<TokensSettled>(&event)) output_.add(*settled);
  }
}

// Takes what is there; an engine without work waits for a request that it can serve, or for the end.
void GenerateRun::take_requests() {
  bool is_first = true;
  while (output_.unfinished_requests() < settings_.most_at_once) {
    const std::optional<ApiRequest> asked = source_.next(!engine_.has_work());
    if (!asked) return;
    if (is_first) note_time();
    is_first = false;
    submit(*asked);
  }
}

void GenerateRun::note_time() {
  output_.set_now(watch_.seconds());
  if (settings_.reports_times) output_.set_time(mean_time(engine_.reports()));
}

void GenerateRun::show_progress() {
  if (!bar_) return;
  const std::size_t done = output_.finished_requests();
  const std::size_t all = settings_.requests;
  const double speed = static_cast<double>(output_.generated_tokens()) / watch_.seconds();
  if (all == 0) return bar_->update(std::nullopt, fmt::format(", {} requests, {:.0f} tokens/s", done, speed));
  bar_->update(static_cast<double>(done) / static_cast<double>(all),
               fmt::format(", {}/{} requests, {:.0f} tokens/s", done, all, speed));
}

// What is wrong with a request ends the request, and never those that others wait for.
void GenerateRun::submit(const ApiRequest& asked) {
  try {
    if (settings_.earlier != nullptr && asked.error.empty()) ids_.add(asked.id);
    const EngineRequest accepted =
        make_engine_request(asked, settings_.defaults, engine_, asked.conversation ? &chat() : nullptr);
    const Request& request = accepted.request;
    request.validate();  // n is a size from here on
    GenerateOutput::Written written = written_before(asked, request);
    if (std::find(written.begin(), written.end(), false) == written.end()) return output_.skip();
    const RequestId id =
        engine_.submit(request, [&events = events_](const Event& event) { events.push_back(event); });
    output_.expect(id, asked, accepted, std::move(written));
  } catch (const Error& error) {
    output_.fail(asked, error.what());
  } catch (const std::bad_alloc&) {
    output_.fail(asked, "out of memory for the prompt's tokens; shorten it");
  }
}

GenerateOutput::Written GenerateRun::written_before(const ApiRequest& asked, const Request& request) const {
  GenerateOutput::Written written(static_cast<std::size_t>(request.n), false);
  for (int sample = 0; settings_.earlier != nullptr && sample < request.n; ++sample)
    written[static_cast<std::size_t>(sample)] = settings_.earlier->has(asked.id, sample);
  return written;
}

// The chat template is read when the first conversation comes: most batches have none.
const ChatPrompts& GenerateRun::chat() {
  require<RequestError>(chat_error_.empty(), "{}", chat_error_);
  if (chat_) return *chat_;
  try {
    return chat_.emplace(engine_, open_chat_template(settings_.template_file, settings_.model));
  } catch (const Error& error) {
    chat_error_ = error.what();
    throw;
  }
}

}  // namespace tp
