// Where downloaded files go.
#pragma once

#include "launch/hub/hub_file.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tp {

class Destination {
 public:
  virtual ~Destination() = default;

  // The folder in which files have the names that they have in the repository.
  virtual std::filesystem::path folder() const = 0;
  // Where the bytes of a file are to be, where they are collected before, and what other programs lock during
  // that (may be empty).
  virtual std::filesystem::path place(const HubFile& file) const = 0;
  virtual std::filesystem::path partial(const HubFile& file) const = 0;
  virtual std::filesystem::path lock(const HubFile& file) const = 0;
  // Whether the file is in its place.
  virtual bool has(const HubFile& file) const = 0;
  // To be called for every file that is in its place, and when all are.
  virtual void publish(const HubFile& file) const = 0;
  virtual void finish() const = 0;
};

// Plain files in a folder. What is there of the same content stays, what differs is replaced.
std::unique_ptr<Destination> folder_destination(const std::filesystem::path& folder);

// The local cache that Hugging Face's tools share, with their locks:
//
//   <cache>/models--ORG--NAME/blobs/<checksum>               contents
//   <cache>/models--ORG--NAME/snapshots/<commit>/<file>      links to them
//   <cache>/models--ORG--NAME/refs/<revision>                the commit of a branch or tag
//   <cache>/.locks/models--ORG--NAME/<checksum>.lock
std::unique_ptr<Destination> cache_destination(const std::filesystem::path& cache,
                                               const std::string& repository, const std::string& revision,
                                               const std::string& commit);

// "models--ORG--NAME"
std::string cache_folder_name(const std::string& repository);

}  // namespace tp
