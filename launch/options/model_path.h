// Finds the model that --model names.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace tp {

// Returns the path of a model: a folder, a GGUF file, or a file with one of `other_extensions` (".json"). An
// empty text means the demo model that ships with the program. If the text is not a path but a name on the
// Hugging Face Hub ("org/name", "org/name:Q4_K_M"), returns the model's path in the local cache. Otherwise
// throws CheckpointError with advice, such as to download a name, or to give a safetensors file's folder.
// Doesn't check whether the model can be read.
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
