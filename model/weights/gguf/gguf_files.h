// The file or files of a GGUF model.
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

// The first file of a GGUF model. `model`: a GGUF file, or a folder without config.json that contains one
// model. Models may have several parts (model-00001-of-00003.gguf ...). Nothing if `model` is something else.
// Throws CheckpointError for a folder with several models.
std::optional<std::filesystem::path> find_gguf(const std::filesystem::path& model);

// The paths of all parts of a model, by name, given the first part. Only `first` if its name is not that of a
// part.
std::vector<std::filesystem::path> gguf_parts(const std::filesystem::path& first);

// All parts of a model, mapped and checked.
class GgufFiles {
 public:
  // `first`: as returned by find_gguf. Throws CheckpointError if a part is missing, damaged, or of another
  // model.
  explicit GgufFiles(const std::filesystem::path& first);

  // A tensor and the part that contains it.
  struct Entry {
    GgufTensor tensor;
    const MappedFile& file;
  };

  // Metadata of the first part, which describes the model completely.
  const GgufMetadata& metadata() const { return *metadata_; }
  const std::map<std::string, Entry, std::less<>>& tensors() const { return tensors_; }
  // Values of some lists in the metadata as tensors of one element: "blk.3.xielu.beta". A list has a number
  // for each layer, or one for all layers.
  const std::map<std::string, Entry, std::less<>>& listed() const { return listed_; }
  // The tensor with this name, or nullptr.
  const Entry* find(std::string_view name) const;

  // Replaces the type and shape of the tensor with this name by others with as many bytes.
  void describe_as(const GgufTensor& tensor);

  // "model.gguf" or "model-00001-of-00003.gguf and 2 more"
  std::string name() const;
  // Like MappedFile::stop_reading_ahead, for all parts.
  void stop_reading_ahead();
  // Bytes of the tensors' data.
  std::size_t stored_bytes() const { return stored_bytes_; }
  std::vector<const MappedFile*> parts() const;
  // Hash of the parts' names, sizes and headers. Computed at each call: a start opens a file seven times, and
  // the header of a large vocabulary has megabytes.
  std::uint64_t fingerprint() const;

 private:
  void add_file(const std::filesystem::path& path);
  void add_list(const std::string& key, const GgufValue& value);

  std::vector<std::shared_ptr<MappedFile>> files_;
  std::vector<std::size_t> header_sizes_;  // bytes of each part's header
  std::optional<GgufMetadata> metadata_;
  std::map<std::string, Entry, std::less<>> tensors_;
  std::map<std::string, Entry, std::less<>> listed_;
  std::size_t stored_bytes_ = 0;
};

// Throws CheckpointError if gguf_dequantize.h does not support the tensor's type.
void require_readable(const GgufFiles::Entry& entry);

}  // namespace tp
