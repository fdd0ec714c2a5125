// The file, or the parts, of a GGUF model.
#pragma once

#include "model/files/mapped_file.h"
#include "model/weights/gguf/gguf_header.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tp {

// The GGUF file that `model` stands for: itself, if it is such a file, or the only one in a folder without
// config.json; of one in parts (model-00001-of-00003.gguf ...) the first. Nothing if `model` is something
// else. Throws CheckpointError for a folder with several.
std::optional<std::filesystem::path> find_gguf(const std::filesystem::path& model);

// The paths of all parts of the model whose first part is `first`, by their names; `first` alone if it is not
// named as a part.
std::vector<std::filesystem::path> gguf_parts(const std::filesystem::path& first);

// All parts of a model, mapped and checked.
class GgufFiles {
 public:
  // `first`: as find_gguf gave it. Throws CheckpointError if a part is missing, damaged, or not of this
  // model.
  explicit GgufFiles(const std::filesystem::path& first);

  // A tensor and the part that holds it.
  struct Entry {
    GgufTensor tensor;
    const MappedFile& file;
  };

  // Of the first part, which has all that matters.
  const GgufMetadata& metadata() const { return *metadata_; }
  const std::map<std::string, Entry, std::less<>>& tensors() const { return tensors_; }
  // What the metadata lists, a number for every layer or one for all, as if it were tensors of one element:
  // "blk.3.xielu.beta".
  const std::map<std::string, Entry, std::less<>>& listed() const { return listed_; }
  // The tensor of that name, or nullptr.
  const Entry* find(std::string_view name) const;

  // "model.gguf" or "model-00001-of-00003.gguf and 2 more"
  std::string name() const;
  // As MappedFile's, for all parts.
  void stop_reading_ahead();
  // Bytes of the tensors' data.
  std::size_t stored_bytes() const { return stored_bytes_; }
  // A hash of the parts' names, sizes, headers and samples of their data.
  std::uint64_t fingerprint() const { return fingerprint_; }
  // And of when they were changed last.
  std::uint64_t identity() const;

 private:
  void add_file(const std::filesystem::path& path);
  void add_list(const std::string& key, const GgufValue& value);

  std::vector<std::unique_ptr<MappedFile>> files_;
  std::optional<GgufMetadata> metadata_;
  std::map<std::string, Entry, std::less<>> tensors_;
  std::map<std::string, Entry, std::less<>> listed_;
  std::size_t stored_bytes_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace tp
