#include "runtime/gateway/refusals.h"

#include "runtime/access/request_log.h"
#include "runtime/gateway/announcement.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace tp {
namespace {

// Monitoring and the page ask for these paths every few seconds, also while the model has no job.
bool is_polled(std::string_view path) {
  constexpr std::string_view kPolled[] = {"/metrics", "/status",    "/v1/status",
                                          "/models",  "/v1/models", "/version"};
  return std::ranges::find(kPolled, path) != std::end(kPolled);
}

bool is_without_job(const ApiError& error) { return error.status == 429 || error.status == 503; }

}  // namespace

void Refusals::add(const HttpRequest& request, const ApiError& error, const std::string& model,
                   double seconds) {
  if (is_polled(request.path()) && is_without_job(error)) return;
  ++counts_[{model, error.status}];
  // A connection that sends no HTTP has no method.
  if (!log_ || request.method.empty()) return;
  LoggedRequest line = logged(request, {.model = model,
                                        .by_gateway = true,
                                        .status = error.status,
                                        .total = seconds,
                                        .param = error.param,
                                        .reason = short_reason(error)});
  // The rest of this path is the secret of a job.
  if (request.path().find(kAnnouncePath) != std::string_view::npos) line.path = kAnnouncePath;
  log_(log_line(line, as_json_));
}

std::string Refusals::metrics() const {
  std::string text =
      "# HELP tpinfer:gateway_request_refused_total Requests that the gateway itself refused or could not "
      "finish, by HTTP status.\n"
      "# TYPE tpinfer:gateway_request_refused_total counter\n";
  for (const auto& [labels, count] : counts_) {
    const auto& [model, status] = labels;
    text += fmt::format("tpinfer:gateway_request_refused_total{{{}status=\"{}\"}} {}\n",
                        model.empty() ? "" : fmt::format("model=\"{}\",", label_text(model)), status, count);
  }
  return text;
}

}  // namespace tp
