// The identity of a model's files: all bytes of all of them. Ranks compare it, and whatever is kept for later
// starts (packed weights, stored prompts) is kept for one identity.
#pragma once

#include "model/files/content_hash.h"
#include "model/files/hash_cache.h"
#include "model/weights/source/weight_source.h"
#include "tp/communicator.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// Reading a large model takes time. So ranks that opened one file read it together, and each host's user has
// a cache of hashes. Nothing is read if all ranks opened one file and nobody asks for the identity.
class ModelIdentity {
 public:
  // Compares which files the ranks opened, and how they read them. `source` must outlive this object.
  // `model`: the path for errors. Collective; throws AgreedError if the files' headers differ between ranks.
  ModelIdentity(Communicator& comm, const WeightSource& source, std::string model, HashCache cache = {});

  // Whether different ranks opened different files, which may be copies.
  bool has_copies() const { return sharers_.size() != comm_.size(); }

  // The hash of all files, and of how they are read; equal on all ranks. The first call reads the files
  // unless their hashes are known. Collective; throws AgreedError if the files differ between ranks, cannot
  // be read, or have changed since they were opened.
  const ContentHash& read();

  // Throws CheckpointError if a file has changed since it was opened.
  void require_unchanged() const;

 private:
  ContentHash of_files(const std::vector<ContentHash>& files) const;
  std::optional<ContentHash> find() const;
  std::vector<ContentHash> hash_files() const;
  std::vector<ContentHash> hash_part(Range chunks) const;
  void remember(const std::vector<ContentHash>& files) const;
  void require_agreement_on(std::uint64_t hash) const;

  Communicator& comm_;
  std::vector<const MappedFile*> files_;
  std::uint64_t fingerprint_;
  std::string model_;
  HashCache cache_;
  std::vector<std::size_t> sharers_;  // ranks that opened the same files as this rank, including this rank
  std::optional<ContentHash> hash_;
};

}  // namespace tp
