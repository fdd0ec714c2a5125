#pragma once

#include "launch/common/progress.h"
#include "launch/generate/earlier_results.h"
#include "launch/generate/generate_output.h"
#include "launch/generate/request_source.h"
#include "launch/options/prompts.h"
#include "parallel/machine/stopwatch.h"
#include "runtime/chat/chat_prompts.h"
#include "tp/engine.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tp {

struct GenerateSettings {
  Request defaults{};                       // fields that a request omits
  std::vector<BatchText> prompts{};         // prompts to continue, and ...
  std::string batch_file{};                 // ... a file of requests; may be empty
  bool echoes = false;                      // texts begin with their prompts
  std::filesystem::path model{};            // source of the chat template for conversations, unless ...
  std::string template_file{};              // ... this file contains a template
  const EarlierResults* earlier = nullptr;  // results of an earlier run; null: none
  std::size_t max_at_once = 1;              // largest number of requests in the engine
  bool reports_times = false;               // the output contains the parts of the time
  bool shows_progress = false;              // progress on stderr, at a terminal
  std::size_t requests = 0;                 // number of requests; 0: unknown
};

// Rank 0's part of `tp-infer generate`: takes requests as they arrive while the engine works on earlier
// requests, and passes the results to the output.
class GenerateRun {
 public:
  // `engine`, `output` and `settings.earlier` must outlive this object.
  GenerateRun(Engine& engine, GenerateOutput& output, GenerateSettings settings);

  // Returns when all requests are answered and no more can come.
  void run();

  // Returns the seconds since run() began.
  double seconds() const { return watch_.seconds(); }

 private:
  void take_requests();
  bool take_prompt();
  bool take_line();
  Completion begin(const BatchText& prompt) const;
  Completion begin(const ApiRequest& asked);
  void submit(const AnswerFacts& facts, const std::function<Completion()>& make);
  void add(const std::vector<Event>& events);
  GenerateOutput::Written written_before(const Completion& completion) const;
  const ChatPrompts& chat();
  // `has_parts`: also records the parts of the time.
  void note_time(bool has_parts);
  void show_progress();

  Engine& engine_;
  GenerateOutput& output_;
  GenerateSettings settings_;
  std::size_t taken_prompts_ = 0;
  std::optional<RequestSource> lines_;
  DistinctIds ids_;
  bool has_noted_time_ = false;  // since take_requests() began
  std::vector<Event> events_;    // events since the last step
  std::optional<ChatPrompts> chat_;
  std::string chat_error_;
  Stopwatch watch_;
  std::optional<ProgressBar> bar_;
};

}  // namespace tp
