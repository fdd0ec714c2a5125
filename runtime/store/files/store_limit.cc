#include "runtime/store/files/store_limit.h"

#include "model/files/regular_file.h"
#include "runtime/store/files/prompt_ids.h"
#include "runtime/store/files/store_folder.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kIdDigits = 2 * sizeof(PromptId);

bool is_hexadecimal(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// "ID-k0h3", in lower-case digits.
bool is_stored_name(std::string_view name) {
  return name.size() > kIdDigits + 1 && name[kIdDigits] == '-' &&
         (name[kIdDigits + 1] == 'k' || name[kIdDigits + 1] == 's') &&
         is_hexadecimal(name.substr(0, kIdDigits));
}

// The name of a store's folder: a part of the fingerprint of a model and its options.
bool is_store_name(std::string_view name) {
  constexpr std::size_t kDigits = 32;
  return name.size() == kDigits && is_hexadecimal(name);
}

void add_file(const fs::path& file, std::map<std::pair<fs::path, bool>, StoredFiles>& all) {
  const std::string name = file.filename().string();
  struct stat status {};
  if (!is_stored_name(name) || ::lstat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  const fs::path id = file.parent_path() / name.substr(0, kIdDigits);
  const bool is_state = name[kIdDigits + 1] == 's';
  StoredFiles& one = all[{id, is_state}];
  one.id = id;
  one.are_states = is_state;
  one.bytes += static_cast<std::uint64_t>(status.st_size);
  one.used = std::max(one.used, std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec);
  one.files.push_back(file);
}

}  // namespace

std::vector<StoredFiles> list_stored(const fs::path& store, bool with_links) {
  std::map<std::pair<fs::path, bool>, StoredFiles> all;
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(store, error)) {
    std::error_code ignored;
    if (!folder.is_directory(ignored) || folder.is_symlink(ignored)) continue;
    for (const auto& file : fs::directory_iterator(folder.path(), ignored)) add_file(file.path(), all);
  }
  std::vector<StoredFiles> list;
  for (auto& [id, files] : all) {
    if (with_links && !files.are_states) {
      const ParsedRun run = StoreFolder::read_header(files.files.front());
      if (run.error.empty()) {
        files.before = (files.id.parent_path() / hex_of(run.header.before)).string();
        files.tokens = run.header.tokens.size();
      }
    }
    list.push_back(std::move(files));
  }
  return list;
}

std::vector<StoreSummary> summarize_stores(const fs::path& store) {
  std::error_code error;
  fs::directory_iterator entries(store, error);
  require<ConfigError>(!error,
                       "cannot list stored prompts: expected a folder in {}, found {}; check the path",
                       store.string(), error.message());
  std::map<std::string, StoreSummary> stores;
  const auto summary_of = [&](const fs::path& folder) -> StoreSummary& {
    const std::string name = folder.filename().string();
    const auto [found, is_new] = stores.try_emplace(name, StoreSummary{.name = name});
    if (is_new) {
      const std::string description = RegularFile(folder / StoreFolder::kDescription).text();
      found->second.description = description.substr(0, description.find('\n'));
    }
    return found->second;
  };
  // The user may have named a folder that contains other folders, too.
  for (const auto& entry : entries)
    if (entry.is_directory(error) && is_store_name(entry.path().filename().string()))
      summary_of(entry.path());
  for (const StoredFiles& files : list_stored(store, true)) {
    StoreSummary& summary = summary_of(files.id.parent_path());
    summary.tokens += files.tokens;
    summary.bytes += files.bytes;
    summary.used = std::max(summary.used, files.used);
  }
  std::vector<StoreSummary> list;
  for (auto& [name, summary] : stores) list.push_back(std::move(summary));
  return list;
}

namespace {

std::uint64_t remove_all_of(const StoredFiles& files) {
  for (const fs::path& file : files.files) StoreFolder::remove(file);
  return files.bytes;
}

// Whether the folder contains a description and nothing else.
bool is_empty_store(const fs::directory_entry& folder) {
  std::error_code error;
  if (folder.is_symlink(error) || !folder.is_directory(error)) return false;
  const fs::directory_iterator files(folder.path(), error);
  if (error || files == end(files)) return false;  // an empty folder may be anybody's
  return std::all_of(begin(files), end(files), [](const fs::directory_entry& file) {
    std::error_code failed;
    return file.path().filename() == StoreFolder::kDescription && file.is_regular_file(failed) &&
           !file.is_symlink(failed);
  });
}

// Removes the folders of stores that contain nothing but a description. Never removes recursively, because
// the user may have named another folder.
void remove_empty_stores(const fs::path& store) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(store, error)) {
    if (is_empty_store(entry) && fs::remove(entry.path() / StoreFolder::kDescription, error))
      fs::remove(entry.path(), error);
  }
}

}  // namespace

std::uint64_t prune_stores(const fs::path& store, const PruneOptions& options) {
  std::map<std::string, bool> is_chosen;  // by name
  for (const StoreSummary& summary : summarize_stores(store)) {
    is_chosen[summary.name] = !options.name.empty() && summary.is_called(options.name);
  }
  std::uint64_t removed = 0;
  for (const StoredFiles& files : list_stored(store, false)) {
    const bool is_old = options.unused_since && files.used < *options.unused_since;
    if (is_old || is_chosen[files.id.parent_path().filename().string()]) removed += remove_all_of(files);
  }
  std::vector<StoredFiles> left = list_stored(store, true);
  std::uint64_t bytes = 0;
  for (const StoredFiles& files : left) bytes += files.bytes;
  if (options.bytes && bytes > *options.bytes) {
    for (const StoredFiles& files : least_used(std::move(left), bytes - *options.bytes))
      removed += remove_all_of(files);
  }
  remove_empty_stores(store);
  return removed;
}

std::vector<StoredFiles> least_used(std::vector<StoredFiles> all, std::uint64_t excess) {
  std::unordered_map<std::string, std::size_t> runs;  // indices by id
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].are_states) runs[all[i].id.string()] = i;
  }
  // A run counts as used when any run after it was used.
  std::vector<std::size_t> depths(all.size());  // number of runs before
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t used = all[i].used;
    for (auto before = runs.find(all[i].before); before != runs.end() && depths[i] <= all.size();
         before = runs.find(all[before->second].before)) {
      all[before->second].used = std::max(all[before->second].used, used);
      ++depths[i];
    }
  }
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::tuple(all[i].used, -static_cast<std::int64_t>(depths[i]), all[i].id.string());
  });
  std::vector<StoredFiles> removed;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < order.size() && bytes < excess; ++i) {
    bytes += all[order[i]].bytes;
    removed.push_back(std::move(all[order[i]]));
  }
  return removed;
}

std::uint64_t store_limit(const fs::path& store, std::uint64_t wanted) {
  constexpr std::uint64_t kMax = 20'000'000'000;
  std::error_code error;
  fs::create_directories(store, error);
  const fs::path fixed = store / StoreFolder::kSize;
  std::uint64_t limit = 0;
  std::istringstream(RegularFile(fixed, O_RDONLY | O_NOFOLLOW).text()) >> limit;
  if (limit != 0 && wanted == 0) return limit;
  struct statvfs disk {};
  limit = kMax;
  if (::statvfs(store.c_str(), &disk) == 0)
    limit = std::min<std::uint64_t>(limit, std::uint64_t{disk.f_frsize} * disk.f_blocks / 10);
  if (wanted != 0) limit = wanted;
  const int file = ::open(fixed.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file >= 0) {
    ::dprintf(file, "%llu\n", static_cast<unsigned long long>(limit));
    ::close(file);
  }
  return limit;
}

std::uint64_t shrink_store(const fs::path& store, std::uint64_t limit) {
  const RegularFile lock(store / "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (!lock.is_open()) return 0;
  std::uint64_t removed = 0;
  if (::flock(lock.descriptor(), LOCK_EX | LOCK_NB) == 0) {
    std::uint64_t bytes = 0;
    for (const StoredFiles& files : list_stored(store, false)) bytes += files.bytes;
    if (bytes > limit) {
      for (const StoredFiles& files : least_used(list_stored(store, true), bytes - limit / 10 * 9)) {
        for (const fs::path& file : files.files) StoreFolder::remove(file);
        removed += files.bytes;
      }
    }
  }
  return removed;
}

}  // namespace tp
