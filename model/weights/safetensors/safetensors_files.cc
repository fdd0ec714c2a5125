#include "model/weights/safetensors/safetensors_files.h"

#include "model/files/file_kind.h"
#include "model/files/file_notices.h"
#include "model/files/has_file.h"
#include "model/files/mapped_file.h"
#include "model/files/printable.h"
#include "model/files/strict_json.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <optional>
#include <set>
#include <system_error>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kIndexAdvice = "; download the index again";

json parse_index(std::string_view text, const std::string& name) {
  constexpr std::size_t kLongestIndex = 64'000'000;
  if (text.size() > kLongestIndex) {
    throw_error<CheckpointError>("{}: the index has {} bytes, expected at most {}{}", name, text.size(),
                                 kLongestIndex, kIndexAdvice);
  }
  try {
    return parse_python_json(text, [&](const std::string& key) { note_repeated_key(name, key); });
  } catch (const JsonError& error) {
    refuse_other_kinds(text, name, FileKind::json);
    throw_error<CheckpointError>("{}: the index is not valid JSON ({}){}", name, error.what(), kIndexAdvice);
  }
}

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

SafetensorsFiles read_index(const fs::path& path) {
  const MappedFile file(path);
  return parse_safetensors_index({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                                 file.name());
}

// Files in a directory without a readable checkpoint: the first, by name, of each kind.
struct OtherFiles {
  std::optional<std::string> safetensors, gguf, pytorch;
};

OtherFiles find_other_files(const fs::path& directory) {
  OtherFiles found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string extension = entry.path().extension().string();
    std::optional<std::string>* kind = extension == ".safetensors" ? &found.safetensors
                                       : extension == ".gguf"      ? &found.gguf
                                       : extension == ".bin" || extension == ".pt" || extension == ".pth"
                                           ? &found.pytorch
                                           : nullptr;
    if (kind == nullptr) continue;
    const std::string name = printable(entry.path().filename().string());
    *kind = std::min(kind->value_or(name), name);
  }
  return found;
}

[[noreturn]] void refuse(const fs::path& directory) {
  refuse_other_folders(directory);
  const std::string missing =
      fmt::format("{}: there is neither {} nor {}", directory.string(), kSingleName, kIndexName);
  const OtherFiles found = find_other_files(directory);
  if (found.safetensors && found.safetensors->starts_with("consolidated")) {
    throw_error<CheckpointError>(
        "{}, but {}, weights in their authors' own format; get the model in the format of transformers",
        missing, *found.safetensors);
  }
  if (found.safetensors) {
    throw_error<CheckpointError>(
        "{}, but {}; if the checkpoint is in several files, download its index too, else rename the file to "
        "{}",
        missing, *found.safetensors, kSingleName);
  }
  if (found.gguf) {
    throw_error<CheckpointError>(
        "{}, but {}; to run the GGUF model, give the path of its file as the model: {}", missing, *found.gguf,
        (directory / *found.gguf).string());
  }
  if (found.pytorch) {
    throw_error<CheckpointError>(
        "{}, but PyTorch weights ({}), which can hold programs and are not read; download the model's "
        "safetensors files, or convert it: `python3 -c \"from transformers import AutoModelForCausalLM as M; "
        "M.from_pretrained('{}').save_pretrained('NEW_DIRECTORY', safe_serialization=True)\"`",
        missing, *found.pytorch, directory.string());
  }
  throw_error<CheckpointError>(
      "{}; give the directory of a Hugging Face checkpoint (config.json, *.safetensors)", missing);
}

}  // namespace

SafetensorsFiles parse_safetensors_index(std::string_view text, const std::string& name) {
  const json index = parse_index(text, name);
  const bool has_map = index.is_object() && index.contains("weight_map") && index["weight_map"].is_object() &&
                       !index["weight_map"].empty();
  if (!has_map) {
    throw_error<CheckpointError>("{}: expected an object \"weight_map\" of tensor names and their files{}",
                                 name, kIndexAdvice);
  }
  SafetensorsFiles files;
  std::set<std::string> names;
  for (const auto& [tensor, value] : index["weight_map"].items()) {
    if (!value.is_string()) {
      throw_error<CheckpointError>("{}: the file of tensor {} must be a string{}", name, printable(tensor),
                                   kIndexAdvice);
    }
    const auto& file = value.get_ref<const std::string&>();
    if (!is_plain_file_name(file)) {
      throw_error<CheckpointError>(
          "{}: the file of tensor {} is \"{}\", expected the name of a file in the same directory", name,
          printable(tensor), printable(file));
    }
    files.file_of.emplace(tensor, file);
    names.insert(file);
  }
  files.names.assign(names.begin(), names.end());
  return files;
}

bool holds_safetensors(const fs::path& directory) {
  return has_file(directory / kSingleName) || has_file(directory / kIndexName);
}

bool holds_all_safetensors(const fs::path& directory) {
  const auto is_here = [&](std::string_view name) {
    constexpr std::string_view kPointer = "version https://git-lfs";
    std::ifstream file(directory / name, std::ios::binary);
    std::string start(kPointer.size(), '\0');
    if (!file) return false;
    file.read(start.data(), static_cast<std::streamsize>(start.size()));
    return start != kPointer;
  };
  if (has_file(directory / kSingleName)) return is_here(kSingleName);
  if (!has_file(directory / kIndexName) || !is_here(kIndexName)) return false;
  return std::ranges::all_of(read_index(directory / kIndexName).names, is_here);
}

SafetensorsFiles find_safetensors_files(const fs::path& directory) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (!fs::exists(status)) {
    throw_error<CheckpointError>("{}: no such directory; give the directory of a checkpoint",
                                 directory.string());
  }
  if (!fs::is_directory(status)) {
    throw_error<CheckpointError>("{}: expected a directory, found a file; give the directory it is in",
                                 directory.string());
  }
  if (has_file(directory / kSingleName)) return {{std::string(kSingleName)}, {}};
  if (has_file(directory / kIndexName)) return read_index(directory / kIndexName);
  refuse(directory);
}

}  // namespace tp
