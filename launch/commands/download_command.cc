#include "launch/commands/subcommands.h"
#include "launch/common/message.h"
#include "launch/common/option_group.h"
#include "launch/common/progress_line.h"
#include "launch/common/result_output.h"
#include "launch/hub/cached_model.h"
#include "launch/hub/curl_http.h"
#include "launch/hub/download.h"
#include "launch/hub/download_progress.h"
#include "launch/hub/hub_listing.h"
#include "launch/ranks/on_first_rank.h"
#include "model/files/json_text.h"
#include "model/files/printable.h"
#include "runtime/text/format_bytes.h"
#include "tp/internal/require.h"

#include <memory>
#include <set>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

struct DownloadFlags {
  std::string name;
  std::string to;
  std::string revision = "main";
  bool list = false;
  bool json = false;
};

// The model's files on the Hub, and the client that fetches them.
struct Source {
  HubName name;
  CurlHttp http;
  HubClient client;
  HubListing listing;

  Source(HubName wanted, const std::string& revision, const HubSettings& settings, DownloadProgress& progress)
      : name(std::move(wanted)),
        http(settings.patience),
        client(
            http, settings, [](std::chrono::seconds pause) { std::this_thread::sleep_for(pause); },
            [&progress](const std::string& line) { progress.line(line); }),
        listing(list_repository(client, name.repository, revision)) {}

  std::string read(const HubFile& file) {
    return read_hub_file(client, name.repository, listing.commit, file);
  }
};

nlohmann::json json_of(const HubFile& file) {
  return {{"path", printable(file.path)},
          {"size", file.size},
          {file.kind == ChecksumKind::sha256 ? "sha256" : "git_sha1", file.checksum}};
}

// The files that `download` would fetch. A listing doesn't fail if the repository needs a choice or contains
// no model: `problem` gives the reason.
struct Choice {
  std::set<std::string> fetched;
  std::string problem;
};

Choice choose(Source& source) {
  Choice choice;
  try {
    const auto read = [&](const HubFile& file) { return source.read(file); };
    for (const HubFile& file : select_files(source.name, source.listing, read).files)
      choice.fetched.insert(file.path);
  } catch (const Error& error) {
    choice.problem = error.what();
  }
  return choice;
}

std::string list_text(const HubListing& listing, const Choice& choice) {
  std::string text;
  for (const HubFile& file : listing.files)
    text += fmt::format("{:>10}  {}  {}\n", format_bytes(file.size),
                        choice.fetched.contains(file.path) ? '*' : ' ', printable(file.path));
  return text;
}

std::string list_json(const Source& source, const std::string& revision, const Choice& choice) {
  nlohmann::json files = nlohmann::json::array();
  for (const HubFile& file : source.listing.files) {
    files.push_back(json_of(file));
    files.back()["fetched"] = choice.fetched.contains(file.path);
  }
  const nlohmann::json listing = {{"repository", source.name.repository},
                                  {"revision", revision},
                                  {"commit", source.listing.commit},
                                  {"files", files}};
  return json_text(listing, 2) + "\n";
}

void list(Source& source, const DownloadFlags& flags) {
  const Choice choice = choose(source);
  ResultOutput output;
  output.write(flags.json ? list_json(source, flags.revision, choice) : list_text(source.listing, choice));
  output.finish();
  std::uint64_t bytes = 0;
  for (const HubFile& file : source.listing.files)
    bytes += choice.fetched.contains(file.path) ? file.size : 0;
  print_message(choice.problem.empty()
                    ? fmt::format("tp-infer: {} files; download fetches the files with an asterisk, {}",
                                  source.listing.files.size(), format_bytes(bytes))
                    : fmt::format("tp-infer: {}", choice.problem));
}

// Returns the value for --model: the repository's name if it leads to the same files.
std::string model_argument(const HubName& name, const std::filesystem::path& path, bool in_cache) {
  std::error_code error;
  const bool is_cached = in_cache && !std::filesystem::exists(name.text(), error) &&
                         find_cached_model(name, hub_cache()).path == path;
  return is_cached ? name.text() : path.string();
}

std::unique_ptr<Destination> destination_of(const DownloadFlags& flags, const Source& source) {
  if (!flags.to.empty()) return folder_destination(flags.to);
  const std::filesystem::path cache = hub_cache();
  require<DownloadError>(!cache.empty(),
                         "cannot download {}: expected a home folder for the cache, found no HOME; give "
                         "--to DIR, or set HF_HOME",
                         source.name.repository);
  return cache_destination(cache, source.name.repository, flags.revision, source.listing.commit);
}

void fetch(Source& source, const DownloadFlags& flags, DownloadProgress& progress) {
  const std::unique_ptr<Destination> destination = destination_of(flags, source);
  const auto read = [&](const HubFile& file) { return source.read(file); };
  const Selection selection = select_files(source.name, source.listing, read);
  const DownloadEvents events{
      [&](const std::string& line) { progress.line(line); },
      [&](std::uint64_t bytes, std::uint64_t total) { progress.update(bytes, total); }};
  const DownloadResult result =
      download(source.client, source.name.repository, source.listing.commit, selection, *destination, events);
  const std::filesystem::path path =
      selection.model.empty() ? destination->folder() : destination->folder() / selection.model;
  progress.line(result.fetched_files == 0
                    ? "all files are there already"
                    : fmt::format("fetched {} in {}", format_bytes(result.fetched_bytes),
                                  format_duration(progress.seconds())));
  progress.line(fmt::format("run it: tp-infer generate --model {} --prompt \"Once upon a time\"",
                            model_argument(source.name, path, flags.to.empty())));
  nlohmann::json files = nlohmann::json::array();
  for (const HubFile& file : selection.files) files.push_back(json_of(file));
  const nlohmann::json report = {{"path", path.string()},
                                 {"repository", source.name.repository},
                                 {"revision", flags.revision},
                                 {"commit", source.listing.commit},
                                 {"fetched_bytes", result.fetched_bytes},
                                 {"files", files}};
  ResultOutput output;
  output.write(flags.json ? json_text(report, 2) + "\n" : path.string() + "\n");
  output.finish();
}

void run(const DownloadFlags& flags) {
  DownloadProgress progress;
  const HubSettings settings = hub_settings();
  warn_of_shown_token(settings, [&](const std::string& line) { progress.line(line); });
  Source source(*parse_hub_name(flags.name), flags.revision, settings, progress);
  if (flags.list) return list(source, flags);
  fetch(source, flags, progress);
}

CLI::Validator hub_name() {
  const auto check = [](std::string& text) -> std::string {
    return parse_hub_name(text) ? "" : fmt::format("expected ORG/NAME or ORG/NAME:FILE, found \"{}\"", text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator revision() {
  const auto check = [](std::string& text) -> std::string {
    return is_safe_path(text) ? "" : fmt::format("expected a branch, tag or commit, found \"{}\"", text);
  };
  return CLI::Validator(check, "");
}

}  // namespace

// `tp-infer download`: a model from the Hugging Face Hub.
void add_download_command(CLI::App& app, int& /*status*/) {
  auto flags = std::make_shared<DownloadFlags>();
  CLI::App* command = app.add_subcommand("download", "Fetch a model from the Hugging Face Hub");
  const OptionGroup options(*command);
  options
      .add("MODEL", flags->name, "", hub_name(),
           "ORG/NAME; or ORG/NAME:FILE if a repository has several GGUF models. FILE may also be a "
           "quantization, such as Q4_K_M")
      ->required();
  options.add("--to", flags->to, "DIR", not_empty("a folder"),
              "Write plain files to this folder (default: the cache of Hugging Face's tools)");
  options.add("--revision", flags->revision, "REV", revision(), "Branch, tag or commit");
  command->add_flag("--list", flags->list, "List the repository's files with their sizes, and fetch nothing");
  command->add_flag("--json", flags->json, "One JSON object");
  command->footer(
      "Fetches safetensors files or one GGUF model, the configuration and the tokenizer, and prints the path "
      "for\n"
      "--model. After an interruption, run it again: it continues where it stopped. Checksums are verified.\n"
      "Environment: HF_TOKEN (or what `hf auth login` stored), HF_ENDPOINT, HF_HUB_CACHE, HF_HOME, "
      "https_proxy.\n"
      "Examples:\n"
      "  tp-infer download Qwen/Qwen2.5-0.5B-Instruct\n"
      "  tp-infer chat --model Qwen/Qwen2.5-0.5B-Instruct\n"
      "  tp-infer download Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M --to models\n"
      "  model=$(tp-infer download org/name) && mpirun -np 4 tp-infer generate --model \"$model\" --prompt "
      "Hello\n"
      "  tp-infer download org/name --list");
  command->callback(on_first_rank(*command, [flags] { run(*flags); }));
}

}  // namespace tp
