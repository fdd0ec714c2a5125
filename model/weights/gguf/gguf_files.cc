#include "model/weights/gguf/gguf_files.h"

#include "model/files/content_hash.h"
#include "model/files/printable.h"
#include "model/weights/gguf/gguf_part_name.h"
#include "parallel/machine/hash.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <system_error>

#include <fmt/ranges.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

// Prefix of the keys of lists, and the most layers that a list may have.
constexpr std::string_view kLists = "xielu.";
constexpr std::uint64_t kMaxLayers = 65536;

fs::path first_part(const fs::path& file) {
  const std::optional<GgufPartName> part = parse_gguf_part_name(file.filename().string());
  return part ? file.parent_path() / part->of(1) : file;
}

// The models of a folder, without duplicates.
std::vector<fs::path> models_in(const fs::path& folder) {
  std::vector<fs::path> models;
  std::error_code unreadable;  // an unreadable folder has no models; opening it reports why
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    if (entry.path().extension() == ".gguf") models.push_back(first_part(entry.path()));
  }
  std::sort(models.begin(), models.end());
  models.erase(std::unique(models.begin(), models.end()), models.end());
  return models;
}

// Throws CheckpointError for files that belong to a model, but contain none.
void refuse_parts_of_models(const GgufMetadata& metadata, const std::string& name) {
  struct Part {
    std::string_view type;
    std::string_view what;
    std::string_view advice;
  };
  constexpr Part kParts[] = {
      {"imatrix", "an importance matrix, with which tools quantize a model", "give the model's own file"},
      {"adapter", "a LoRA adapter without its model",
       "give its model, and the adapter as one of its adapters (--lora NAME=FILE)"},
      {"mmproj", "the part of a multimodal model for images or sound (mmproj)",
       "give the file of its language model"}};
  const bool is_clip = metadata.text_or("general.architecture", "") == "clip";
  const std::string_view type = is_clip ? "mmproj" : metadata.text_or("general.type", "model");
  const auto* const part = std::ranges::find(kParts, type, &Part::type);
  if (part == std::end(kParts)) return;
  throw_error<CheckpointError>("{}: expected a model, found {}; {}", name, part->what, part->advice);
}

std::string readable_types() {
  std::vector<std::string_view> names;
  for (const GgufType& type : kGgufTypes) {
    if (type.readable) names.push_back(type.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::optional<fs::path> find_gguf(const fs::path& model) {
  std::error_code ignored;  // opening the model reports errors
  if (model.extension() == ".gguf" && !fs::is_directory(model, ignored)) return first_part(model);
  if (!fs::is_directory(model, ignored) || fs::exists(model / "config.json", ignored)) return std::nullopt;
  const std::vector<fs::path> models = models_in(model);
  if (models.empty()) return std::nullopt;
  if (models.size() > 1) {
    throw_error<CheckpointError>(
        "{}: the folder has {} GGUF models, expected one; give the path of one of them, such as {}",
        model.string(), models.size(), models.front().string());
  }
  return models.front();
}

std::vector<fs::path> gguf_parts(const fs::path& first) {
  std::vector<fs::path> parts = {first};
  const std::optional<GgufPartName> part = parse_gguf_part_name(first.filename().string());
  for (std::size_t number = 2; part && number <= part->count; ++number)
    parts.push_back(first.parent_path() / part->of(number));
  return parts;
}

GgufFiles::GgufFiles(const fs::path& first) {
  add_file(first);
  refuse_parts_of_models(*metadata_, name());
  const std::optional<GgufPartName> part = parse_gguf_part_name(first.filename().string());
  const std::uint64_t count = metadata_->whole_or("split.count", 1);
  if (count > 1 && (!part || part->count != count)) {
    throw_error<CheckpointError>(
        "{}: this is part {} of {}, expected a name that ends in -00001-of-{:05}.gguf; give the parts back "
        "their names",
        first.filename().string(), metadata_->whole_or("split.no", 0) + 1, count, count);
  }
  const std::vector<fs::path> parts = gguf_parts(first);
  for (std::size_t number = 1; number < parts.size(); ++number) add_file(parts[number]);
  const std::uint64_t expected = metadata_->whole_or("split.tensors.count", tensors_.size());
  if (expected != tensors_.size()) {
    throw_error<CheckpointError>("{}: the parts have {} tensors together, expected {}; download them again",
                                 name(), tensors_.size(), expected);
  }
}

void GgufFiles::add_file(const fs::path& path) {
  files_.push_back(std::make_shared<MappedFile>(path));
  const MappedFile& file = *files_.back();
  GgufHeader header = parse_gguf_header(file.bytes(), file.name());
  header_sizes_.push_back(header.size);
  const std::uint64_t number = header.metadata.whole_or("split.no", files_.size() - 1);
  if (number != files_.size() - 1) {
    throw_error<CheckpointError>("{}: the file says it is part {}, expected part {}; download it again",
                                 file.name(), number + 1, files_.size());
  }
  for (GgufTensor& tensor : header.tensors) {
    stored_bytes_ += tensor.bytes.size();
    const std::string name = tensor.name;
    const auto [place, is_new] = tensors_.try_emplace(name, Entry{std::move(tensor), file});
    if (!is_new) {
      throw_error<CheckpointError>("{}: tensor {} is in {} too; download the parts again", file.name(),
                                   printable(name), place->second.file.name());
    }
  }
  if (metadata_) return;
  metadata_.emplace(std::move(header.metadata));
  for (const auto& [key, value] : metadata_->values()) {
    if (key.starts_with(kLists)) add_list(key, value);
  }
}

void GgufFiles::add_list(const std::string& key, const GgufValue& value) {
  const MappedFile& file = *files_.front();
  if (value.kind != GgufKind::f32) {
    throw_error<CheckpointError>("{}: {} has numbers of the kind {}, expected f32; convert the model again",
                                 file.name(), printable(key), name_of(value.kind));
  }
  const std::string architecture(metadata_->text_or("general.architecture", ""));
  const std::uint64_t all = std::min(kMaxLayers, metadata_->whole_or(architecture + ".block_count", 0));
  const auto begin = static_cast<std::size_t>(value.bytes.data() - file.bytes().data());
  for (std::size_t layer = 0; layer < (value.is_list ? std::min(all, value.count) : all); ++layer) {
    const std::size_t at = begin + (value.is_list ? layer : 0) * sizeof(float);
    const std::string name = fmt::format("blk.{}.{}", layer, key);
    listed_.try_emplace(name, Entry{{name, *find_gguf_type("F32"), {1}, {at, at + sizeof(float)}}, file});
  }
}

const GgufFiles::Entry* GgufFiles::find(std::string_view name) const {
  for (const auto* const entries : {&tensors_, &listed_}) {
    if (const auto found = entries->find(name); found != entries->end()) return &found->second;
  }
  return nullptr;
}

void GgufFiles::describe_as(const GgufTensor& tensor) { tensors_.at(tensor.name).tensor = tensor; }

std::vector<const MappedFile*> GgufFiles::parts() const {
  std::vector<const MappedFile*> parts;
  for (const std::shared_ptr<MappedFile>& file : files_) parts.push_back(file.get());
  return parts;
}

std::uint64_t GgufFiles::fingerprint() const {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < files_.size(); ++i) hash = hash_of_header(*files_[i], header_sizes_[i], hash);
  return hash;
}

void GgufFiles::stop_reading_ahead() {
  for (const std::shared_ptr<MappedFile>& file : files_) file->stop_reading_ahead();
}

std::string GgufFiles::name() const {
  if (files_.size() == 1) return files_.front()->name();
  return fmt::format("{} and {} more", files_.front()->name(), files_.size() - 1);
}

void require_readable(const GgufFiles::Entry& entry) {
  const GgufTensor& tensor = entry.tensor;
  if (tensor.type.readable) return;
  throw_error<CheckpointError>(
      "{}: {} has the type {}, expected one of {}; quantize the model to one of them", entry.file.name(),
      printable(tensor.name), tensor.type.name, readable_types());
}

}  // namespace tp
