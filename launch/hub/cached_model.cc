#include "launch/hub/cached_model.h"

#include "launch/hub/destination.h"
#include "launch/hub/gguf_models.h"
#include "model/files/printable.h"
#include "model/files/regular_file.h"
#include "model/weights/safetensors/safetensors_files.h"
#include "tp/error.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::optional<fs::path> only_entry(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) found.push_back(entry.path());
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

std::optional<fs::path> find_snapshot(const fs::path& root) {
  std::string commit = RegularFile(root / "refs/main").text();
  while (!commit.empty() && commit.back() == '\n') commit.pop_back();
  if (commit.empty()) return only_entry(root / "snapshots");
  const fs::path snapshot = root / "snapshots" / commit;
  return is_safe_path(commit) && is_there(snapshot) ? std::optional(snapshot) : std::nullopt;
}

// Returns the first missing file of the checkpoint, or an empty path.
std::string missing_file(const fs::path& snapshot) {
  if (!holds_safetensors(snapshot)) return "model.safetensors";
  try {
    for (const std::string& name : find_safetensors_files(snapshot).names)
      if (!is_there(snapshot / name)) return name;
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return {};
}

// Returns the files with content, relative to the folder.
std::vector<std::string> files_of(const fs::path& snapshot) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (fs::recursive_directory_iterator entry(snapshot, ignored), end; entry != end;
       entry.increment(ignored)) {
    if (ignored) break;
    std::error_code unreadable;
    if (fs::is_regular_file(entry->path(), unreadable))
      files.push_back(fs::relative(entry->path().parent_path(), snapshot, unreadable) /
                      entry->path().filename());
  }
  for (std::string& file : files)
    if (file.starts_with("./")) file.erase(0, 2);
  return files;
}

CachedModel cached_gguf(const HubName& name, const fs::path& snapshot) {
  const std::vector<GgufModel> models = gguf_models(files_of(snapshot));
  const std::vector<GgufModel> found = matching(models, name.file);
  if (found.size() == 1) return {snapshot / found.front().name(), {}};
  if (found.empty() && name.file.empty()) return {{}, "found only a part of it in the cache"};
  std::vector<std::string> names;
  for (const GgufModel& model : found.empty() ? models : found)
    names.push_back(name.repository + ":" + printable(model.name()));
  if (names.empty()) return {{}, "found no GGUF model of it in the cache"};
  return {{}, fmt::format("found {} in the cache; name one", fmt::join(names, ", "))};
}

// If config.json exists, the name means the checkpoint, even if its download was interrupted. A GGUF file
// next to it would be a different model. But `plan` also fetches the config.json of repositories of GGUF
// files.
bool is_checkpoint(const fs::path& snapshot) {
  if (!is_there(snapshot / "config.json")) return false;
  const std::vector<std::string> files = files_of(snapshot);
  const auto is_safetensors = [](const std::string& file) { return file.find(".safetensors") != file.npos; };
  return std::ranges::any_of(files, is_safetensors) || gguf_models(files).empty();
}

}  // namespace

CachedModel find_cached_model(const HubName& name, const fs::path& cache) {
  const fs::path root = cache / cache_folder_name(name.repository);
  const std::optional<fs::path> snapshot = cache.empty() ? std::nullopt : find_snapshot(root);
  if (!snapshot) return {{}, "found no file, folder or cached model with this name"};
  if (!name.file.empty() || !is_checkpoint(*snapshot)) return cached_gguf(name, *snapshot);
  const std::string missing = missing_file(*snapshot);
  if (missing.empty()) return {snapshot, {}};
  return {{}, fmt::format("found an incomplete model in the cache: {} is missing", printable(missing))};
}

std::optional<fs::path> find_cached_config(const std::string& repository, const fs::path& cache) {
  if (cache.empty()) return std::nullopt;
  const std::optional<fs::path> snapshot = find_snapshot(cache / cache_folder_name(repository));
  return snapshot && is_there(*snapshot / "config.json") ? snapshot : std::nullopt;
}

}  // namespace tp
