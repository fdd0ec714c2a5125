#include "launch/model_path.h"

#include "tp/internal/require.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <string>

#include <fmt/ranges.h>

namespace tp {
namespace {

namespace fs = std::filesystem;

fs::path demo_model() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path folder = program.parent_path().parent_path() / "share/tp-infer/demo";
  require<CheckpointError>(fs::exists(folder / "config.json"),
                           "the demo model is not at {}, beside the program; give --model DIR",
                           folder.string());
  return folder;
}

// "organization/name"
bool is_hub_name(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto is_part = [](std::string_view part) {
    return !part.empty() && std::isalnum(static_cast<unsigned char>(part.front())) != 0 &&
           std::all_of(part.begin(), part.end(), [](unsigned char c) {
             return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
           });
  };
  return slash != text.npos && is_part(text.substr(0, slash)) && is_part(text.substr(slash + 1));
}

[[noreturn]] void refuse_absent(const fs::path& given) {
  require<CheckpointError>(is_hub_name(given.string()),
                           "cannot open {}: no such file or folder; check the path, on every host",
                           given.string());
  const std::string name = given.filename().string();
  throw_error<CheckpointError>(
      "cannot open {0}: no such file or folder; a model of that name on the Hugging Face Hub is downloaded "
      "by "
      "`hf download {0} --local-dir {1}` (before 2025: `huggingface-cli download ...`) or `git lfs install "
      "&& "
      "git clone https://huggingface.co/{0}`; then give --model {1}",
      given.string(), name);
}

bool has_gguf_magic(const fs::path& file) {
  char magic[4] = {};
  std::ifstream(file, std::ios::binary).read(magic, sizeof(magic));
  return std::string_view(magic, sizeof(magic)) == "GGUF";
}

[[noreturn]] void refuse_file(const fs::path& given, std::initializer_list<std::string_view> extensions) {
  const fs::path folder = given.has_parent_path() ? given.parent_path() : fs::path(".");
  if (given.extension() == ".safetensors") {
    throw_error<CheckpointError>(
        "cannot load {}: expected the folder of a checkpoint, found one of its files; give --model {}, where "
        "config.json and a tokenizer are to be beside it",
        given.string(), folder.string());
  }
  if (has_gguf_magic(given)) {
    throw_error<CheckpointError>(
        "cannot load {}: expected a name that ends in .gguf, as the content is GGUF; rename the file or make "
        "a "
        "link to it",
        given.string());
  }
  throw_error<CheckpointError>(
      "cannot load {}: expected the folder of a checkpoint (config.json, *.safetensors, a tokenizer) or a "
      "file "
      "*.gguf{}{}, found a file that is neither; give one of these",
      given.string(), extensions.size() == 0 ? "" : ", *", fmt::join(extensions, ", *"));
}

bool is_of_model(const fs::path& file) {
  static const std::set<std::string> kExtensions = {".safetensors", ".gguf", ".model", ".jinja"};
  static const std::set<std::string> kNames = {
      "config.json",        "generation_config.json",  "tokenizer.json", "tokenizer_config.json",
      "chat_template.json", "special_tokens_map.json", "vocab.json",     "merges.txt"};
  const std::string name = file.filename().string();
  return kExtensions.contains(file.extension().string()) || kNames.contains(name) ||
         name.ends_with(".safetensors.index.json");
}

}  // namespace

std::vector<fs::path> model_files(const fs::path& model) {
  std::error_code error;
  const bool is_folder = fs::is_directory(model, error);
  std::vector<fs::path> files = {model};
  const fs::path folder = is_folder ? model : fs::absolute(model, error).parent_path();
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (is_of_model(entry->path())) files.push_back(entry->path());
  return files;
}

fs::path find_model(const fs::path& given, std::initializer_list<std::string_view> other_extensions) {
  if (given.empty()) return demo_model();
  std::error_code error;
  const fs::file_type type = fs::status(given, error).type();
  if (type == fs::file_type::not_found) refuse_absent(given);
  require<CheckpointError>(type != fs::file_type::none, "cannot open {}: {}; check the path, on every host",
                           given.string(), error.message());
  const std::string extension = given.extension().string();
  const bool is_known = extension == ".gguf" || std::find(other_extensions.begin(), other_extensions.end(),
                                                          extension) != other_extensions.end();
  if (type == fs::file_type::regular && !is_known) refuse_file(given, other_extensions);
  return given;
}

}  // namespace tp
