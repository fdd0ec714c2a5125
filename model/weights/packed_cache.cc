#include "model/weights/packed_cache.h"

#include "model/weights/packing_fingerprint.h"
#include "parallel/machine/hash.h"
#include "tp/internal/require.h"
#include "tp/internal/threads.h"
#include "tp/version.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <fmt/ranges.h>
#include <xxhash.h>

namespace tp {

// One page at the beginning of the file. The rest of the page is the identity's text.
struct PackedCache::Header {
  char magic[8] = {'t', 'p', 'p', 'a', 'c', 'k', 'e', 'd'};
  std::uint64_t version = 1;
  std::uint64_t records = 0;
  std::uint64_t hashes = 0;
  std::uint64_t table = 0;       // place in the file
  std::uint64_t table_hash = 0;  // hash of records and hashes
  std::uint64_t identity_bytes = 0;
};

namespace {

// Not the system's page size: the file is never mapped, so systems with larger pages read it, too.
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kChunk = std::uint64_t{4} << 20;
constexpr std::uint64_t kReadAhead = std::uint64_t{64} << 20;
constexpr std::uint64_t kMaxRecords = std::uint64_t{1} << 22;
constexpr std::uint64_t kMaxText = std::uint64_t{16} << 20;

std::uint64_t next_page(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
std::uint64_t chunks_of(std::uint64_t bytes) { return (bytes + kChunk - 1) / kChunk; }

std::string system_message(int error) { return std::generic_category().message(error); }

std::uint64_t hash_of_bytes(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// Calls body(chunk, bytes of the chunk) on all threads.
template <class Byte, class Body>
void for_chunks(std::span<Byte> bytes, const Body& body) {
  for_thread_parts(chunks_of(bytes.size()), bytes.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t chunk = begin; chunk < end; ++chunk)
      body(chunk,
           bytes.subspan(chunk * kChunk, std::min<std::size_t>(kChunk, bytes.size() - chunk * kChunk)));
  });
}

// Removes files whose writers were killed.
void remove_abandoned(const std::filesystem::path& finished) {
  std::error_code error;
  const std::string begin = finished.filename().string() + ".";
  for (std::filesystem::directory_iterator entry(finished.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(".tmp")) continue;
    const int descriptor = ::open(entry->path().c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) continue;
    std::error_code ignored;
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) std::filesystem::remove(entry->path(), ignored);
    ::close(descriptor);
  }
}

// Empty if the model is one stage.
std::string stage_text(Stage stage) {
  return stage.is_whole() ? std::string() : fmt::format("stage-{}-of-{}.", stage.index, stage.count);
}

// Empty if the ranks' shares are equal.
std::string split_text(TpRank tp) {
  return tp.split.empty() ? std::string() : fmt::format(" split {}", fmt::join(tp.split, ","));
}

std::string tables_text(const PackedCacheIdentity& identity) {
  return identity.divides_tables ? " divided tables" : "";
}

// The path comes last, because the text may be cut.
std::string describe_identity(const PackedCacheIdentity& identity) {
  return fmt::format(
      "{}, packing {:016x}, source {}, weights {}, leaves of {} heads, {}rank {} of {}{}{}, {}", build_text(),
      packing_fingerprint(), identity.source.hex(), identity.type ? name_of(*identity.type) : "auto",
      identity.leaf_heads, stage_text(identity.stage), identity.tp.rank, identity.tp.size,
      split_text(identity.tp), tables_text(identity), identity.model);
}

// Differs between caches that must exist in a folder at the same time.
std::string name_of_file(const PackedCacheIdentity& identity) {
  const std::string which =
      fmt::format("{} {} {}{}", identity.model, identity.type ? name_of(*identity.type) : "auto",
                  identity.leaf_heads, tables_text(identity));
  const std::filesystem::path model(identity.model);
  const std::filesystem::path name = model.has_filename() ? model.filename() : model.parent_path().filename();
  return fmt::format("{}-{:08x}.{}rank-{}-of-{}.packed", name.string(),
                     static_cast<std::uint32_t>(mixed(hash_of(which))), stage_text(identity.stage),
                     identity.tp.rank, identity.tp.size);
}

}  // namespace

std::uint64_t packed_cache_key(std::string_view what, std::span<const std::uint64_t> numbers) {
  std::uint64_t key = hash_of(what);
  for (const std::uint64_t number : numbers) key = mixed(key ^ number);
  return key;
}

PackedCache::PackedCache(const std::filesystem::path& folder, const PackedCacheIdentity& identity)
    : identity_(describe_identity(identity).substr(0, kPage - sizeof(Header))) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require<ConfigError>(!error && ::access(folder.c_str(), R_OK | W_OK | X_OK) == 0,
                       "cannot keep packed weights in {}: expected a folder that may be written, found {}; "
                       "choose another",
                       folder.string(), system_message(error ? error.value() : errno));
  path_ = folder / name_of_file(identity);
  if (!std::filesystem::exists(path_, error)) return;
  unusable_because_ = open();
  reads_ = unusable_because_.empty();
  if (!reads_) close();
}

PackedCache::~PackedCache() { close(); }

void PackedCache::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  std::error_code error;
  if (!unfinished_.empty()) std::filesystem::remove(unfinished_, error);
  unfinished_.clear();
}

std::string PackedCache::open() {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) return system_message(errno);
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) return system_message(errno);
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  // Another user could have written any weights.
  if (status.st_uid != ::geteuid()) return "it belongs to another user";
  end_ = static_cast<std::uint64_t>(status.st_size);
  try {
    return read_table();
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string PackedCache::read_table() {
  if (end_ < kPage) return "it is cut short";
  std::vector<std::byte> page(kPage);
  read_at(0, page);
  Header found;
  std::memcpy(&found, page.data(), sizeof found);
  const Header expected;
  if (std::memcmp(found.magic, expected.magic, sizeof found.magic) != 0 || found.version != expected.version)
    return "it is not a cache of this version";
  const std::string_view rest(reinterpret_cast<const char*>(page.data()) + sizeof found,
                              kPage - sizeof found);
  if (rest.substr(0, std::min<std::uint64_t>(found.identity_bytes, rest.size())) != identity_)
    return "the model, or how weights are packed, has changed";
  if (found.records > kMaxRecords || found.hashes > found.records + chunks_of(end_) || found.table > end_ ||
      found.records * sizeof(Record) + found.hashes * sizeof(std::uint64_t) != end_ - found.table)
    return "it is cut short";
  std::vector<std::byte> table(end_ - found.table);
  read_at(found.table, table);
  if (hash_of_bytes(table) != found.table_hash) return "its table is damaged";
  records_.resize(found.records);
  hashes_.resize(found.hashes);
  const std::size_t record_bytes = records_.size() * sizeof(Record);
  if (!records_.empty()) std::memcpy(records_.data(), table.data(), record_bytes);
  if (!hashes_.empty()) std::memcpy(hashes_.data(), table.data() + record_bytes, table.size() - record_bytes);
  for (const Record& record : records_) {
    if (record.bytes > end_ || record.begin > end_ - record.bytes || record.first_hash > hashes_.size() ||
        chunks_of(record.bytes) > hashes_.size() - record.first_hash)
      return "its table is damaged";
  }
  return {};
}

const PackedCache::Record& PackedCache::next_record(std::uint64_t key) {
  if (next_ >= records_.size() || records_[next_].key != key)
    throw PackedCacheError("it holds other weights than this model's");
  return records_[next_++];
}

void PackedCache::read_at(std::uint64_t begin, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw PackedCacheError(system_message(errno));
    if (count == 0) throw PackedCacheError("it is cut short");
    begin += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

void PackedCache::read_ahead(std::uint64_t begin, std::uint64_t end) {
  // The kernel usually truncates longer hints to this size. Each hint takes time.
  constexpr std::uint64_t kHint = std::uint64_t{128} << 10;
  end = std::min(end, end_);
  begin = std::max(begin, read_ahead_);
  if (end < begin + kChunk && end != end_) return;
  for (; begin < end; begin += kHint)
    ::posix_fadvise(descriptor_, static_cast<off_t>(begin), kHint, POSIX_FADV_WILLNEED);
  read_ahead_ = std::max(read_ahead_, begin);
}

void PackedCache::read(std::uint64_t key, std::span<std::byte> out) {
  const Record& record = next_record(key);
  if (record.bytes != out.size()) throw PackedCacheError("it holds weights of other shapes");
  read_ahead(record.begin, record.begin + record.bytes + kReadAhead);
  for_chunks(out, [&](std::size_t chunk, std::span<std::byte> bytes) {
    read_at(record.begin + chunk * kChunk, bytes);
    if (hash_of_bytes(bytes) != hashes_[record.first_hash + chunk]) throw PackedCacheError("it is damaged");
  });
}

std::string PackedCache::read_text(std::uint64_t key) {
  const bool is_next = next_ < records_.size() && records_[next_].key == key;
  if (!is_next || records_[next_].bytes > kMaxText)
    throw PackedCacheError("it holds other weights than this model's");
  std::string text(records_[next_].bytes, ' ');
  read(key, std::as_writable_bytes(std::span(text)));
  return text;
}

void PackedCache::rebuild() {
  close();
  reads_ = false;
  records_.clear();
  hashes_.clear();
  write_error_.clear();
  next_ = 0;
  end_ = kPage;
  remove_abandoned(path_);
  make_unfinished();
}

void PackedCache::make_unfinished() {
  // Until the file is locked, another process may consider it abandoned, and remove it.
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    close();
    std::random_device random;
    unfinished_ = fmt::format("{}.{:08x}{:08x}.tmp", path_.string(), random(), random());
    descriptor_ = ::open(unfinished_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      write_error_ = system_message(errno);
      unfinished_.clear();
      return;
    }
    struct stat status {};
    const bool is_locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (is_locked && ::fstat(descriptor_, &status) == 0 && status.st_nlink > 0) return;
  }
  close();
  write_error_ = "another process removes what is written";
}

void PackedCache::write(std::uint64_t key, std::span<const std::byte> bytes) {
  if (!write_error_.empty()) return;
  const Record record{key, next_page(end_), bytes.size(), hashes_.size()};
  hashes_.resize(hashes_.size() + chunks_of(bytes.size()));
  for_chunks(bytes, [&](std::size_t chunk, std::span<const std::byte> part) {
    hashes_[record.first_hash + chunk] = hash_of_bytes(part);
  });
  write_at(record.begin, bytes);
  records_.push_back(record);
  end_ = record.begin + record.bytes;
}

void PackedCache::write_at(std::uint64_t begin, std::span<const std::byte> bytes) {
  while (!bytes.empty() && write_error_.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      write_error_ = system_message(errno);
      break;
    }
    begin += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void PackedCache::write_table() {
  std::vector<std::byte> table(bytes_of(records_).begin(), bytes_of(records_).end());
  table.insert(table.end(), bytes_of(hashes_).begin(), bytes_of(hashes_).end());
  Header header;
  header.records = records_.size();
  header.hashes = hashes_.size();
  header.table = next_page(end_);
  header.table_hash = hash_of_bytes(table);
  header.identity_bytes = identity_.size();
  std::vector<std::byte> page(kPage);
  std::memcpy(page.data(), &header, sizeof header);
  std::memcpy(page.data() + sizeof header, identity_.data(), identity_.size());
  write_at(header.table, table);
  write_at(0, page);
  end_ = header.table + table.size();
}

std::string PackedCache::finish() {
  try {
    write_table();
  } catch (const std::exception& error) {
    write_error_ = error.what();
  }
  // Does not wait for the disk: after a crash, the hashes reveal damage. Renames while the file is locked, so
  // that no other process considers it abandoned.
  if (write_error_.empty() && std::rename(unfinished_.c_str(), path_.c_str()) != 0)
    write_error_ = system_message(errno);
  if (write_error_.empty()) unfinished_.clear();
  close();
  return write_error_.empty() ? std::string() : fmt::format("{}: {}", path_.string(), write_error_);
}

}  // namespace tp
