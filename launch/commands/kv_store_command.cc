#include "launch/commands/subcommands.h"
#include "launch/common/message.h"
#include "launch/common/option_group.h"
#include "launch/common/result_output.h"
#include "launch/ranks/on_first_rank.h"
#include "model/files/parse_number.h"
#include "model/files/printable.h"
#include "runtime/store/files/store_folder.h"
#include "runtime/store/files/store_limit.h"
#include "runtime/text/format_bytes.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace tp {
namespace {

constexpr const char* kKvStoreExamples = R"(Examples:
  tp-infer kv-store DIR
  tp-infer kv-store DIR --prune-days 30 --prune-size 10
)";

struct KvStoreArguments {
  std::string folder;
  std::string output;
  std::optional<double> days;
  std::optional<double> gigabytes;
  std::string model;

  bool prunes() const { return days || gigabytes || !model.empty(); }
};

std::int64_t now_in_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string age_of(std::int64_t used) {
  constexpr double kHour = 3600e9;
  if (used == 0) return "never used";
  const double hours = static_cast<double>(now_in_nanoseconds() - used) / kHour;
  return hours < 48 ? fmt::format("used {:.1f} hours ago", hours)
                    : fmt::format("used {:.0f} days ago", hours / 24);
}

void prune(const KvStoreArguments& arguments, ResultOutput& output) {
  PruneOptions options{.unused_since = {}, .name = arguments.model, .bytes = {}};
  constexpr double kDay = 86400e9;
  const std::vector<StoreSummary> stores = summarize_stores(arguments.folder);
  const auto is_chosen = [&](const StoreSummary& store) { return store.is_called(arguments.model); };
  if (!arguments.model.empty() && std::ranges::none_of(stores, is_chosen)) {
    print_message(
        fmt::format("tp-infer: --prune-model removes nothing: expected the name of an entry in {0}, or a "
                    "part of its description, found {1}; `tp-infer kv-store {0}` lists the entries",
                    arguments.folder, arguments.model));
  }
  if (arguments.days)
    options.unused_since = now_in_nanoseconds() - static_cast<std::int64_t>(*arguments.days * kDay);
  if (arguments.gigabytes) options.bytes = static_cast<std::uint64_t>(*arguments.gigabytes * 1e9);
  output.write(fmt::format("removed {}\n", format_bytes(prune_stores(arguments.folder, options))));
}

// A folder of --kv-store has a file with its maximum size.
bool is_foreign(const std::filesystem::path& folder) {
  std::error_code error;
  return !std::filesystem::exists(folder / StoreFolder::kSize, error) &&
         !std::filesystem::is_empty(folder, error);
}

void list_or_prune(const KvStoreArguments& arguments) {
  ResultOutput output(arguments.output);
  if (arguments.prunes()) prune(arguments, output);
  const std::vector<StoreSummary> stores = summarize_stores(arguments.folder);
  if (stores.empty() && is_foreign(arguments.folder)) {
    print_message(
        fmt::format("tp-infer: notice: expected a folder of --kv-store, found other files in {}; check "
                    "the path",
                    arguments.folder));
  }
  for (const StoreSummary& store : stores) {
    output.write(fmt::format("{}  {} tokens, {}, {}: {}\n", store.name, store.tokens,
                             format_bytes(store.bytes), age_of(store.used), printable(store.description)));
  }
  output.finish();
}

}  // namespace

// `tp-infer kv-store`: the contents of a folder of stored prompts.
void add_kv_store_command(CLI::App& app, int& /*status*/) {
  CLI::App* command = app.add_subcommand("kv-store", "List or remove the prompts that --kv-store has stored");
  const OptionGroup options(*command);
  const auto arguments = std::make_shared<KvStoreArguments>();
  options.add("DIR", arguments->folder, "", not_empty("a folder"), "The folder of --kv-store")->required();
  const auto number_for = [](std::optional<double>& target) {
    return [&target](const std::string& text) { target = parse_number<double>(text); };
  };
  options.add("--prune-days", number_for(arguments->days), "DAYS", amount(36500),
              "Remove prompts that have not been used for this many days");
  options.add("--prune-size", number_for(arguments->gigabytes), "GB", gigabytes(),
              "Remove the least recently used prompts until at most this size is left");
  options.add("--prune-model", arguments->model, "NAME", not_empty("a name"),
              "Remove all prompts of list entries whose name is NAME or whose description contains NAME");
  add_output_option(*command, arguments->output);
  command->footer(kKvStoreExamples);
  command->callback(on_first_rank(*command, [arguments] { list_or_prune(*arguments); }));
}

}  // namespace tp
