// Finds the model that --model names.
#pragma once

#include <filesystem>
#include <initializer_list>
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

// Returns the files of a model that a command may read: the parts of a GGUF model, or a folder's weights,
// configuration, tokenizer and chat template, but no other models next to them. `given` is the path or name
// for find_model. Returns an empty list for a missing model, because opening the model reports the error.
std::vector<std::filesystem::path> model_files(const std::filesystem::path& given);

}  // namespace tp
