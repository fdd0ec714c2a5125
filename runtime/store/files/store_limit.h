// Limits the size of a folder of stored prompts, which several jobs may share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Files that are useful only together: all parts of a run or of a state.
struct StoredFiles {
  std::filesystem::path id;  // path of the files without "-" and the part
  bool are_states = false;
  std::string before{};    // path of the run before this one, if it is known
  std::size_t tokens = 0;  // a run's tokens, if they are known
  std::uint64_t bytes = 0;
  std::int64_t used = 0;  // time of the last use, in nanoseconds
  std::vector<std::filesystem::path> files{};
};

// All stored files in a folder of stores. Reads the headers of runs only with `with_links`, to find the runs
// before them.
std::vector<StoredFiles> list_stored(const std::filesystem::path& store, bool with_links);

// One fingerprint's store.
struct StoreSummary {
  std::string name{};         // name of its folder
  std::string description{};  // StoreFolder::describe
  std::size_t tokens = 0;
  std::uint64_t bytes = 0;
  std::int64_t used = 0;  // time of the last use, in nanoseconds

  // Whether this is the name, or a part of the description.
  bool is_called(const std::string& text) const {
    return name == text || description.find(text) != std::string::npos;
  }
};

// All stores in a folder, by name. Throws ConfigError if the folder cannot be read.
std::vector<StoreSummary> summarize_stores(const std::filesystem::path& store);

// Which files to remove; empty conditions remove nothing.
struct PruneOptions {
  std::optional<std::int64_t> unused_since{};  // last used before this time, in nanoseconds
  std::string name{};                          // name of a store's folder, or a part of its description
  std::optional<std::uint64_t> bytes{};        // least recently used files until this size remains
};

// Removes files, and folders without files. Returns the number of removed bytes.
std::uint64_t prune_stores(const std::filesystem::path& store, const PruneOptions& options);

// The files to remove, so that `excess` bytes become free: least recently used runs first, but no run before
// those that follow it. So the beginnings that many prompts share are removed last.
std::vector<StoredFiles> least_used(std::vector<StoredFiles> all, std::uint64_t excess);

// The maximum size of the folder, in bytes: `wanted`, or if `wanted` is 0, the limit that the file `size`
// contains. Creates the folder and this file if necessary. The first job writes its `wanted` to the file, or
// if `wanted` is 0, the smaller of 20 GB and a tenth of the disk.
std::uint64_t store_limit(const std::filesystem::path& store, std::uint64_t wanted);

// If the folder has more than `limit` bytes, removes files until it has at most nine tenths of `limit`. Does
// nothing while another process removes files. Returns the number of removed bytes.
std::uint64_t shrink_store(const std::filesystem::path& store, std::uint64_t limit);

}  // namespace tp
