#include "launch/bench/bench_format.h"

#include "launch/bench/bench_row.h"
#include "launch/common/rate.h"
#include "model/files/json_text.h"
#include "model/files/split_text.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

// Members of a row's JSON that CSV contains.
constexpr const char* kCsvFields =
    "phase,batch,prompt,tokens,steps,runs,tokens_per_s,tokens_per_s_least,tokens_per_s_most,"
    "ms_per_step,bandwidth_gb_s,streaming_gb_s,streaming_gb_s_before,streaming_gb_s_after,tflops,"
    "peak_tflops,collective_share,waiting_share,weights,kv_type,ranks,threads,model,version,commit,"
    "date,cpu,isa,mpi";

constexpr std::array kMarkdownNames = {"phase",  "batch",   "prompt",       "weights",      "tokens/s",
                                       "spread", "ms/step", "of streaming", "of arithmetic"};

// Quotes a cell that contains a comma, a quote or a line break.
std::string csv_cell(const nlohmann::json& value) {
  std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string csv_row(const nlohmann::json& row) {
  std::string text;
  for (const std::string_view field : split_text(kCsvFields, ',')) {
    if (!text.empty()) text += ',';
    text += csv_cell(row.at(field));
  }
  return text + '\n';
}

std::string markdown_row(const BenchSummary& summary, const nlohmann::json& row) {
  const auto share = [&](const char* found, const char* peak) {
    return Rate{row.at(found), row.at(peak)}.share();
  };
  return fmt::format("| {} | {} | {} | {} | {:.1f} | {} | {:.3f} | {} | {} |\n", summary.row.phase,
                     summary.row.batch, summary.row.prompt, row.at("weights").get<std::string>(),
                     summary.row.tokens_per_second(), spread_text(summary), summary.row.ms_per_step(),
                     share("bandwidth_gb_s", "streaming_gb_s"), share("tflops", "peak_tflops"));
}

}  // namespace

std::string bench_heading(BenchFormat format, const BenchSetup& setup) {
  switch (format) {
    case BenchFormat::json:
      return {};
    case BenchFormat::csv:
      return fmt::format("{}\n", kCsvFields);
    case BenchFormat::markdown: {
      std::string rule = "|";
      for (std::size_t i = 0; i < kMarkdownNames.size(); ++i) rule += " --- |";
      return fmt::format("{}.\n\n| {} |\n{}\n", setup.text(), fmt::join(kMarkdownNames, " | "), rule);
    }
    case BenchFormat::table:
      return setup.text() + "\n" + bench_header();
  }
  return {};
}

std::string format_summary(const BenchSummary& summary, const Engine& engine, BenchFormat format,
                           const BenchSetup& setup) {
  nlohmann::json row = row_json(summary, engine);
  if (format == BenchFormat::table) return line_text(summary, row);
  if (format == BenchFormat::markdown) return markdown_row(summary, row);
  row.update(nlohmann::json(setup));
  return format == BenchFormat::csv ? csv_row(row) : json_text(row) + "\n";
}

}  // namespace tp
