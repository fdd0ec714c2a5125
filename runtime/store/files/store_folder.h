// The files of one fingerprint.
#pragma once

#include "runtime/store/files/run_file.h"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tp {

class StoreFolder {
 public:
  // Creates the folder `store`/`name`, readable by the user alone. `description`: a line about the model, for
  // people. Throws ConfigError.
  StoreFolder(const std::filesystem::path& store, const std::string& name, std::string description);

  static constexpr const char* kDescription = "model";  // name of the file with the description
  static constexpr const char* kSize = "size";          // file of the folder of all stores: its maximum size

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path path_of(const PromptId& id, const std::string& part) const;
  static bool exists(const std::filesystem::path& file);

  // Writes a file under a temporary name, then renames it. If another process has removed this folder, but
  // not the folder of all stores, creates it again. Returns the reason if that failed, else nothing.
  std::string write(const std::filesystem::path& file, std::span<const std::byte> bytes) const;
  // Reads a file of exactly this size, and counts it as used. Returns the reason if that failed, else
  // nothing.
  static std::string read(const std::filesystem::path& file, std::span<std::byte> out);
  // Removes the file, or the folder in its place. Errors are ignored.
  static void remove(const std::filesystem::path& file);

  // Reads the header of a file.
  static ParsedRun read_header(const std::filesystem::path& file);
  // All files of this part.
  std::vector<std::filesystem::path> files_of(const std::string& part) const;
  // Removes temporary files whose writers have ended.
  void remove_abandoned() const;

 private:
  std::string write_once(const std::filesystem::path& file, std::span<const std::byte> bytes) const;
  void describe() const;

  std::filesystem::path path_;
  std::string description_;
};

}  // namespace tp
