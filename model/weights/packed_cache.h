// A file with a rank's loaded weights, so that the next start need not convert and pack them again.
//
// The file contains a header of one page, then the records that WeightLoader loaded, in order, each beginning
// at a page. A table at the end contains each record's key, size, and hashes of its chunks. The header
// identifies the model, type, rank and build of the program. The file is not used if the header differs, the
// file was truncated, belongs to another user, or contains weights that are packed differently. Reading
// checks the hashes.
#pragma once

#include "model/files/content_hash.h"
#include "parallel/shard/shard.h"
#include "parallel/shard/stage.h"
#include "tp/memory_types.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Everything on which a cache depends.
struct PackedCacheIdentity {
  std::string model;     // path of the model
  ContentHash source{};  // identity of the model's files
  std::optional<WeightType> type{};
  std::size_t leaf_heads = 0;
  TpRank tp;
  Stage stage{};
  bool divides_tables = false;  // whether hash tables are loaded, because hosts divide them
};

// The reason why the rest of a cache cannot be read.
class PackedCacheError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class PackedCache {
 public:
  // Finds the file of this identity in `folder`, which is created if it is missing. Throws ConfigError if
  // that fails.
  PackedCache(const std::filesystem::path& folder, const PackedCacheIdentity& identity);
  // Removes a file that was not finished.
  ~PackedCache();
  PackedCache(const PackedCache&) = delete;
  PackedCache& operator=(const PackedCache&) = delete;

  // Whether there is a file to read. If not: the reason, empty if there is no file yet.
  bool reads() const { return reads_; }
  const std::string& unusable_because() const { return unusable_because_; }

  // Reads the next record. Throws PackedCacheError if its key or size differs.
  void read(std::uint64_t key, std::span<std::byte> out);
  // Reads the next record, a text of any size.
  std::string read_text(std::uint64_t key);

  // Abandons an existing file, and begins to write another, which replaces it when finished. If two processes
  // write the file at the same time, the last one to finish wins.
  void rebuild();
  // Writes the next record. Errors, such as a full disk, are reported by finish().
  void write(std::uint64_t key, std::span<const std::byte> bytes);
  // Returns the reason if the file could not be written, else nothing.
  std::string finish();

 private:
  struct Record {
    std::uint64_t key = 0;
    std::uint64_t begin = 0;  // place in the file
    std::uint64_t bytes = 0;
    std::uint64_t first_hash = 0;  // index of its first chunk's hash in hashes_
  };
  struct Header;

  // Reads header and table. Returns the reason if they cannot be used.
  std::string open();
  std::string read_table();
  const Record& next_record(std::uint64_t key);
  // Throws PackedCacheError.
  void read_at(std::uint64_t begin, std::span<std::byte> out) const;
  void write_at(std::uint64_t begin, std::span<const std::byte> bytes);
  // Hints that the caller reads these bytes soon: the kernel reads them in the background.
  void read_ahead(std::uint64_t begin, std::uint64_t end);
  void make_unfinished();
  void write_table();
  void close();

  std::filesystem::path path_;
  std::string identity_;
  bool reads_ = false;
  std::string unusable_because_;
  std::vector<Record> records_;
  std::vector<std::uint64_t> hashes_;
  std::size_t next_ = 0;   // next record to read
  std::uint64_t end_ = 0;  // size of the file so far
  std::uint64_t read_ahead_ = 0;
  std::filesystem::path unfinished_;  // path of the file being written; empty if there is none
  int descriptor_ = -1;
  std::string write_error_;
};

// A record's key: a hash of its description and numbers.
std::uint64_t packed_cache_key(std::string_view what, std::span<const std::uint64_t> numbers);

}  // namespace tp
