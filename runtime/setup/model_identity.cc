#include "runtime/setup/model_identity.h"

#include "parallel/exchange/agreement.h"
#include "parallel/exchange/collectives.h"
#include "parallel/exchange/fail_together.h"
#include "parallel/exchange/placement.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace tp {
namespace {

// Leaves out the device, whose number differs between the hosts of a network file system. Copies differ in
// the time of the last change, because nobody can set it.
ContentHash hash_of_statuses(const std::vector<const MappedFile*>& files) {
  std::vector<ContentHash> facts;
  for (const MappedFile* file : files) {
    const FileStatus& status = file->opened();
    facts.push_back({status.inode, status.size});
    facts.push_back(
        {static_cast<std::uint64_t>(status.modified), static_cast<std::uint64_t>(status.changed)});
  }
  return combined(facts);
}

std::size_t chunks_of(const MappedFile& file) { return hashed_chunks(file.bytes().size()); }

// A rank's hash of the model, if it knows the hash.
struct Known {
  ContentHash hash;
  std::uint64_t is_known = 0;
};

}  // namespace

ModelIdentity::ModelIdentity(Communicator& comm, const WeightSource& source, std::string model,
                             HashCache cache)
    : comm_(comm),
      files_(source.mapped_files()),
      fingerprint_(source.fingerprint()),
      model_(std::move(model)),
      cache_(std::move(cache)) {
  require_agreement_on(fingerprint_);
  const ContentHash own = hash_of_statuses(files_);
  const std::vector<ContentHash> all = exchange_values(comm_, std::span<const ContentHash>(&own, 1));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == own) sharers_.push_back(rank);
  }
}

ContentHash ModelIdentity::of_files(const std::vector<ContentHash>& files) const {
  std::vector<ContentHash> parts = {{fingerprint_, files.size()}};
  parts.insert(parts.end(), files.begin(), files.end());
  return combined(parts);
}

const ContentHash& ModelIdentity::read() {
  if (!hash_) {
    std::optional<ContentHash> own = find();
    if (max_over_ranks(comm_, own ? 0 : 1) != 0) {
      const std::vector<ContentHash> files = hash_files();
      remember(files);
      own = of_files(files);
    }
    require_agreement_on(own->low ^ own->high);
    hash_ = own;
  }
  fail_together(comm_, [&] { require_unchanged(); });
  return *hash_;
}

void ModelIdentity::require_unchanged() const {
  for (const MappedFile* file : files_) file->require_unchanged();
}

// The hash that this rank, or another rank with the same files, has in its cache.
std::optional<ContentHash> ModelIdentity::find() const {
  std::vector<FileStatus> statuses;
  for (const MappedFile* file : files_) statuses.push_back(file->opened());
  Known own;
  if (const std::optional<std::vector<ContentHash>> files = cache_.find(statuses))
    own = {of_files(*files), 1};
  const std::vector<Known> all = exchange_values(comm_, std::span<const Known>(&own, 1));
  std::optional<ContentHash> found;
  for (const std::size_t rank : sharers_) {
    if (all[rank].is_known != 0 && !found) found = all[rank].hash;
  }
  return found;
}

// The hash of each file. Ranks with the same files hash equal parts of their chunks.
std::vector<ContentHash> ModelIdentity::hash_files() const {
  std::size_t chunks = 0;
  for (const MappedFile* file : files_) chunks += chunks_of(*file);
  const std::size_t each = (chunks + sharers_.size() - 1) / sharers_.size();
  const auto index = static_cast<std::size_t>(std::ranges::find(sharers_, comm_.rank()) - sharers_.begin());
  std::vector<ContentHash> own;
  fail_together(comm_, [&] {
    own = hash_part({std::min(chunks, each * index), std::min(chunks, each * (index + 1))});
  });
  // All ranks must exchange the same number of hashes.
  own.resize(static_cast<std::size_t>(max_over_ranks(comm_, static_cast<std::int64_t>(each))));
  const std::vector<ContentHash> all = exchange_values(comm_, std::span<const ContentHash>(own));
  std::vector<ContentHash> joined;
  for (const std::size_t rank : sharers_) {
    const auto part = std::span(all).subspan(rank * own.size(), std::min(each, chunks - joined.size()));
    joined.insert(joined.end(), part.begin(), part.end());
  }
  std::vector<ContentHash> hashes;
  std::size_t first = 0;
  for (const MappedFile* file : files_) {
    hashes.push_back(combined(std::span(joined).subspan(first, chunks_of(*file))));
    first += chunks_of(*file);
  }
  return hashes;
}

// The hashes of some chunks, counted over all files.
std::vector<ContentHash> ModelIdentity::hash_part(Range chunks) const {
  std::vector<ContentHash> hashes(chunks.size());
  std::size_t first = 0;
  for (const MappedFile* file : files_) {
    const std::size_t end = first + chunks_of(*file);
    const Range part{std::clamp(chunks.begin, first, end), std::clamp(chunks.end, first, end)};
    if (!part.empty())
      hash_chunks(*file, {part.begin - first, part.end - first},
                  std::span(hashes).subspan(part.begin - chunks.begin, part.size()));
    first = end;
  }
  return hashes;
}

// One rank of each host remembers the hashes of files that it shares.
void ModelIdentity::remember(const std::vector<ContentHash>& files) const {
  const auto first_here =
      std::ranges::find_if(sharers_, [&](std::size_t rank) { return comm_.placement().on_own_host(rank); });
  if (*first_here != comm_.rank()) return;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (files_[i]->status() == files_[i]->opened()) cache_.add(files_[i]->opened(), files[i]);
  }
}

void ModelIdentity::require_agreement_on(std::uint64_t hash) const {
  fail_together(comm_, [&] {
    require_agreement(comm_, hash, fmt::format("the checkpoint in {}", model_),
                      "copy the same files to every host");
  });
}

}  // namespace tp
