// What --model names.
#pragma once

#include <filesystem>
#include <initializer_list>
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

// The files that may be read of the model that find_model returned: the parts of a GGUF model, or the
// weights, configuration, tokenizer and chat template of a folder. Other models beside them are not among
// them. Throws CheckpointError for a folder of several GGUF models.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& model);

}  // namespace tp
