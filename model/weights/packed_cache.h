// What a rank has loaded, in a file, so that the next start need not convert and pack it again.
//
// The file holds a header of one page, then what WeightLoader loaded, in this order and each from a page on,
// and at its end a table: of every record its key, its size, and hashes of its chunks. The header says for
// which model, type and rank it was written, and by which version of the program. A file that says something
// else, was cut short, belongs to another user or has weights packed differently is not used; damage is found
// by the hashes while reading.
#pragma once

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

// What a cache depends on.
struct PackedCacheIdentity {
  std::string model;         // its path
  std::uint64_t source = 0;  // WeightSource::identity
  std::optional<WeightType> type{};
  std::size_t leaf_heads = 0;
  TpRank tp;
  Stage stage{};
};

// Why a cache cannot be read on.
class PackedCacheError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class PackedCache {
 public:
  // Looks for the file of this identity in `folder`, which is made if it is missing. Throws ConfigError if
  // that is impossible.
  PackedCache(const std::filesystem::path& folder, const PackedCacheIdentity& identity);
  // A file that was not finished is removed.
  ~PackedCache();
  PackedCache(const PackedCache&) = delete;
  PackedCache& operator=(const PackedCache&) = delete;

  // Whether there is a file to read; else why not, or nothing if there is none yet.
  bool reads() const { return reads_; }
  const std::string& unusable_because() const { return unusable_because_; }

  // The next record. It must have this key and size: throws PackedCacheError.
  void read(std::uint64_t key, std::span<std::byte> out);
  // The same of a text, of any size.
  std::string read_text(std::uint64_t key);

  // Gives up the file that was found, if one was, and begins to write another, which takes its place when it
  // is finished. Two processes may write the same file at once: one takes the other's place.
  void rebuild();
  // The next record. The disk may be full: that is told by finish.
  void write(std::uint64_t key, std::span<const std::byte> bytes);
  // Returns why the file could not be written, or nothing.
  std::string finish();

 private:
  struct Record {
    std::uint64_t key = 0;
    std::uint64_t begin = 0;  // of the file
    std::uint64_t bytes = 0;
    std::uint64_t first_hash = 0;  // of its chunks, among all
  };
  struct Header;

  // Reads header and table; returns why they cannot be used.
  std::string open();
  std::string read_table();
  const Record& next_record(std::uint64_t key);
  // Throws PackedCacheError.
  void read_at(std::uint64_t begin, std::span<std::byte> out) const;
  void write_at(std::uint64_t begin, std::span<const std::byte> bytes);
  // Lets the kernel read some bytes while the caller goes on.
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
  std::size_t next_ = 0;   // record to be read
  std::uint64_t end_ = 0;  // of the file so far
  std::uint64_t read_ahead_ = 0;
  std::filesystem::path unfinished_;  // what is being written, if anything is
  int descriptor_ = -1;
  std::string write_error_;
};

// A key of a record: of its description and numbers that belong to it.
std::uint64_t packed_cache_key(std::string_view what, std::span<const std::uint64_t> numbers);

}  // namespace tp
