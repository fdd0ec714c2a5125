// Destinations of downloaded files.
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

  // The folder in which files have their names from the repository.
  virtual std::filesystem::path folder() const = 0;
  // The paths of a file: its place, its partial file during the download, and a lock for other programs (may
  // be empty).
  virtual std::filesystem::path place(const HubFile& file) const = 0;
  virtual std::filesystem::path partial(const HubFile& file) const = 0;
  virtual std::filesystem::path lock(const HubFile& file) const = 0;
  // Whether the file is in its place.
  virtual bool has(const HubFile& file) const = 0;
  // Call publish() for each file in its place, and finish() after the last file.
  virtual void publish(const HubFile& file) const = 0;
  virtual void finish() const = 0;
};

// Plain files in a folder. Files with the right content stay. Others are replaced.
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
