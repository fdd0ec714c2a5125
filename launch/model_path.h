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

// The files that may be read of the model that find_model finds: weights, configuration, tokenizer, chat
// templates, also in folders inside its folder (Sentence Transformers' modules, a draft model); of a GGUF
// model its parts only. None if there is no such model.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& given);

}  // namespace tp
