#include "launch/common/trace_file.h"

#include "launch/common/message.h"
#include "launch/common/option_group.h"
#include "model/files/json_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Returns the unit of an event's detail.
const char* detail_name(Activity activity) {
  switch (activity) {
    case Activity::step:
    case Activity::attention:
    case Activity::feed_forward:
      return "tokens";
    case Activity::logits:
    case Activity::choose:
      return "rows";
    case Activity::sample:
      return "sequences";
    default:
      return "bytes";
  }
}

// Each row of the picture is a "thread" of a "process".
std::string row_name(std::size_t row, std::size_t rank, const std::string& host, const char* what) {
  const nlohmann::json event = {{"name", "thread_name"},
                                {"ph", "M"},
                                {"pid", 0},
                                {"tid", row},
                                {"args", {{"name", fmt::format("rank {} on {}{}", rank, host, what)}}}};
  return json_text(event);
}

bool is_beside_computing(const TraceEvent& event) {
  return event.activity == Activity::overlapped_all_reduce;
}

// Times are in microseconds.
std::string event_json(std::size_t row, const TraceEvent& event) {
  return fmt::format(
      R"({{"name":"{}","ph":"X","pid":0,"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"{}":{}}}}})",
      name_of(event.activity), row, event.begin * 1e6, (event.end - event.begin) * 1e6,
      detail_name(event.activity), event.detail);
}

}  // namespace

void add_trace_option(CLI::App& command, std::string& path) {
  OptionGroup(command).add_file(
      "--trace", path, "Write a timeline of every rank to FILE, for chrome://tracing or ui.perfetto.dev");
}

TraceFile::TraceFile(const std::string& path) {
  if (!path.empty()) file_.emplace(path, ResultOutput::Existing::replace, "the trace");
}

void TraceFile::begin(Engine& engine) const {
  if (file_) engine.start_trace();
}

void TraceFile::finish(Engine& engine) {
  if (!file_) return;
  const std::vector<RankTrace> traces = engine.traces();
  const std::vector<RankReport> reports = engine.reports();
  std::uint64_t dropped = 0;
  file_->write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    std::string events = (rank == 0 ? "" : ",\n") + row_name(rank, rank, reports[rank].host, "");
    // The row follows all ranks' rows.
    const std::size_t second_row = traces.size() + rank;
    if (std::ranges::any_of(traces[rank].events, is_beside_computing))
      events += ",\n" + row_name(second_row, rank, reports[rank].host, ": sums beside computing");
    for (const TraceEvent& event : traces[rank].events)
      events += ",\n" + event_json(is_beside_computing(event) ? second_row : rank, event);
    file_->write(events);
    dropped += traces[rank].dropped;
  }
  file_->write("\n]}\n");
  file_->finish();
  if (dropped != 0)
    print_note(fmt::format("tp-infer: the trace lacks {} later events; trace a shorter run\n", dropped));
}

}  // namespace tp
