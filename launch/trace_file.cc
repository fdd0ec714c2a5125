#include "launch/trace_file.h"

#include "tp/error.h"

#include <cerrno>
#include <cstring>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

// What an event's detail counts.
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

// A row of the picture is a "thread" of one "process".
std::string row_name(std::size_t rank, const std::string& host) {
  const nlohmann::json event = {{"name", "thread_name"},
                                {"ph", "M"},
                                {"pid", 0},
                                {"tid", rank},
                                {"args", {{"name", fmt::format("rank {} on {}", rank, host)}}}};
  return event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Times are in microseconds.
std::string event_json(std::size_t rank, const TraceEvent& event) {
  return fmt::format(
      R"({{"name":"{}","ph":"X","pid":0,"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"{}":{}}}}})",
      name_of(event.activity), rank, event.begin * 1e6, (event.end - event.begin) * 1e6,
      detail_name(event.activity), event.detail);
}

}  // namespace

void add_trace_option(CLI::App& command, std::string& path) {
  command
      .add_option("--trace", path,
                  "Write what every rank does when to FILE, for chrome://tracing or ui.perfetto.dev")
      ->type_name("FILE");
}

TraceFile::TraceFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  file_.reset(std::fopen(path_.c_str(), "w"));
  require<ConfigError>(file_ != nullptr, "cannot write the trace to {}: {}", path_, std::strerror(errno));
}

void TraceFile::begin(Engine& engine) const {
  if (file_) engine.start_trace();
}

void TraceFile::finish(Engine& engine) const {
  if (!file_) return;
  const std::vector<RankTrace> traces = engine.traces();
  const std::vector<RankReport> reports = engine.reports();
  std::FILE* const file = file_.get();
  std::uint64_t dropped = 0;
  fmt::print(file, "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    fmt::print(file, "{}{}", rank == 0 ? "" : ",\n", row_name(rank, reports[rank].host));
    for (const TraceEvent& event : traces[rank].events) fmt::print(file, ",\n{}", event_json(rank, event));
    dropped += traces[rank].dropped;
  }
  fmt::print(file, "\n]}}\n");
  require<Error>(std::fflush(file) == 0 && std::ferror(file) == 0, "cannot write the trace to {}: {}", path_,
                 std::strerror(errno));
  if (dropped != 0) {
    fmt::print(stderr, "tp-infer: the trace lacks {} later events; trace a shorter run\n", dropped);
  }
}

}  // namespace tp
