#include "launch/options/model_path.h"

#include "launch/hub/cached_model.h"
#include "launch/hub/description.h"
#include "launch/hub/download_error.h"
#include "launch/hub/hub_settings.h"
#include "model/files/file_kind.h"
#include "model/weights/gguf/gguf_files.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <fmt/ranges.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

fs::path demo_model() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path folder = program.parent_path().parent_path() / "share/tp-infer/demo";
  require<CheckpointError>(fs::exists(folder / "config.json"),
                           "the demo model is not at {}, next to the program; give --model DIR",
                           folder.string());
  return folder;
}

// A name on the Hub stands for its files in the local cache.
fs::path find_by_name(const fs::path& given) {
  const std::optional<HubName> name = parse_hub_name(given.string());
  const bool is_word = given.string().find('/') == std::string::npos;
  require<CheckpointError>(
      name.has_value(), "cannot open {}: no such file or folder; check the path on every host{}",
      given.string(), is_word ? ", or give a model of the Hugging Face Hub as ORGANIZATION/NAME" : "");
  const CachedModel cached = find_cached_model(*name, hub_cache());
  require<CheckpointError>(cached.path.has_value(),
                           "cannot open {0}: expected a path or the name of a downloaded model, {1}; to "
                           "download it, run `tp-infer download {0}` on every host",
                           name->text(), cached.reason);
  return *cached.path;
}

[[noreturn]] void refuse_file(const fs::path& given, std::initializer_list<std::string_view> extensions) {
  const fs::path folder = given.has_parent_path() ? given.parent_path() : fs::path(".");
  if (given.extension() == ".safetensors") {
    throw_error<CheckpointError>(
        "cannot load {}: expected a checkpoint's folder, found one of its files; give --model {}, which must "
        "also contain config.json and a tokenizer",
        given.string(), folder.string());
  }
  const std::string_view kind = kind_of_file(given);
  if (kind == "a GGUF file") {
    throw_error<CheckpointError>(
        "cannot load {}: expected a name that ends in .gguf, because the content is GGUF; rename the file, "
        "or make a link to it",
        given.string());
  }
  throw_error<CheckpointError>(
      "cannot load {}: expected the folder of a checkpoint (config.json, *.safetensors, a tokenizer) or a "
      "file *.gguf{}{}, found {}; give one of these",
      given.string(), extensions.size() == 0 ? "" : ", *", fmt::join(extensions, ", *"),
      kind.empty() ? "a file that is neither" : kind);
}

// Models may get additional JSON files whose names contain such words. Results have other names, such as
// results.json or tokens.json.
bool is_of_model(const fs::path& file) {
  static const std::set<std::string> kExtensions = {".safetensors", ".model", ".jinja", ".tiktoken"};
  static const std::set<std::string> kNames = {"vocab.txt", "merges.txt", "rwkv_vocab_v20230424.txt"};
  static constexpr const char* kWords[] = {"config",  "tokenizer", "added_tokens", "special_tokens", "vocab",
                                           ".index.", "modules",   "template",     "tekken"};
  const std::string extension = file.extension().string();
  const std::string name = file.filename().string();
  const auto is_in_name = [&](const char* word) { return name.find(word) != name.npos; };
  return kExtensions.contains(extension) || kNames.contains(name) ||
         (extension == ".json" && std::ranges::any_of(kWords, is_in_name));
}

// A checkpoint's folder may contain GGUF files that were made from it. They are not part of the model.
void add_files_in(const fs::path& folder, int depth, std::vector<fs::path>& files) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      if (depth > 0) add_files_in(entry->path(), depth - 1, files);
    } else if (is_of_model(entry->path())) {
      files.push_back(entry->path());
    }
  }
}

}  // namespace

std::vector<fs::path> model_files(const fs::path& given) {
  constexpr int kDepth = 2;
  try {
    const fs::path model = find_model(given, {".json", ".model"});
    if (const std::optional<fs::path> gguf = find_gguf(model)) return gguf_parts(*gguf);
    std::error_code error;
    const bool is_folder = fs::is_directory(model, error);
    const fs::path folder = is_folder ? model : fs::absolute(model, error).parent_path();
    std::vector<fs::path> files = {model, folder / "../../refs/main"};  // the cache's name of a commit
    add_files_in(folder, kDepth, files);
    return files;
  } catch (const CheckpointError&) {
    return {};  // whoever opens the model reports the error
  }
}

fs::path find_model_to_describe(const fs::path& given) {
  std::error_code error;
  const std::optional<HubName> name = parse_hub_name(given.string());
  const bool is_name = name && name->file.empty() && !fs::exists(given, error);
  if (!is_name || find_cached_model(*name, hub_cache()).path) return find_model(given, {".json"});
  try {
    return fetch_description(name->repository);
  } catch (const DownloadError& failure) {
    throw_error<DownloadError>("there is no file or folder {}; as a name on the Hub: {}", given.string(),
                               failure.what());
  }
}

std::string name_of_model(const fs::path& given) {
  std::error_code error;
  if (const std::optional<HubName> name = parse_hub_name(given.string()); name && !fs::exists(given, error))
    return name->repository;
  const fs::path name = (find_model(given, {".json"}) / "").parent_path().filename();
  return (name.extension() == ".gguf" ? name.stem() : name).string();
}

fs::path find_model(const fs::path& given, std::initializer_list<std::string_view> other_extensions) {
  if (given.empty()) return demo_model();
  std::error_code error;
  const fs::file_type type = fs::status(given, error).type();
  if (type == fs::file_type::not_found) return find_by_name(given);
  require<CheckpointError>(type != fs::file_type::none, "cannot open {}: {}; check the path on every host",
                           given.string(), error.message());
  const std::string extension = given.extension().string();
  const bool is_known = extension == ".gguf" || std::find(other_extensions.begin(), other_extensions.end(),
                                                          extension) != other_extensions.end();
  if (type == fs::file_type::regular && !is_known) refuse_file(given, other_extensions);
  return given;
}

}  // namespace tp
