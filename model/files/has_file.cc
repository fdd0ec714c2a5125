#include "model/files/has_file.h"

#include "model/files/json_node.h"
#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

namespace fs = std::filesystem;

// "LORA of org/base"
std::string adapter_text(const fs::path& file) {
  const nlohmann::json document = read_json_file(file);
  const JsonNode fields(document, file);
  return printable(fmt::format("{} of {}", fields.string_or("peft_type", "PEFT"),
                               fields.string_or("base_model_name_or_path", "an unknown model")));
}

}  // namespace

bool has_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_regular_file(status) || fs::is_directory(status)) return true;
  require<CheckpointError>(
      !fs::exists(status),
      "{}: expected a regular file, found a device, pipe or socket; copy its data to a file", path.string());
  if (!fs::is_symlink(fs::symlink_status(path, error))) return false;
  throw_error<CheckpointError>(
      "{}: expected a file, found a link to {}, which does not exist; copy the model together with what its "
      "links name (cp -rL), or download it again",
      path.string(), printable(fs::read_symlink(path, error).string()));
}

void refuse_other_folders(const fs::path& folder) {
  if (const fs::path adapter = folder / "adapter_config.json"; has_file(adapter)) {
    throw_error<CheckpointError>(
        "{}: expected a model, found an adapter ({}) without its model; give its model, and the "
        "adapter as one of its adapters (--lora NAME=FOLDER)",
        folder.string(), adapter_text(adapter));
  }
  require<CheckpointError>(!has_file(folder / "model_index.json"),
                           "{}: expected a language model, found a pipeline of several models "
                           "(model_index.json); give the folder of its language model",
                           folder.string());
  require<CheckpointError>(has_file(folder / "config.json") || !has_file(folder / "params.json"),
                           "{}: expected a Hugging Face checkpoint (config.json, *.safetensors), found its "
                           "authors' own format (params.json); get the model in the format of transformers",
                           folder.string());
}

}  // namespace tp
