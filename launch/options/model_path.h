// What --model names.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// The path of a model: a folder, a GGUF file, or a file with one of `other_extensions` (".json"), as given;
// of the demo model that ships with the program if none is given. What is no path but a name on the Hugging
// Face Hub ("org/name", "org/name:Q4_K_M") is that model in the local cache. Throws CheckpointError for
// anything else, with advice: a name is to be downloaded, of a lone safetensors file the folder is wanted.
// Whether the model can be read is for others to say.
std::filesystem::path find_model(const std::filesystem::path& given,
                                 std::initializer_list<std::string_view> other_extensions = {});

// Also serves commands that read no weights. The name of a model that is not in the cache makes them fetch
// its config.json and the index of its weights from the Hub. Also throws DownloadError.
std::filesystem::path find_model_to_describe(const std::filesystem::path& given);

// The name of a model that find_model() finds: "demo", "ORG/NAME", or the name of the folder or GGUF file.
std::string name_of_model(const std::filesystem::path& given);

// The files of a model that a command may read: the parts of a GGUF model, or the weights, configuration,
// tokenizer and chat template of a folder, but no other models beside them. `given` is the path or name for
// find_model. The list is empty if there is no such model: whoever opens the model reports the error.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& given);

}  // namespace tp
