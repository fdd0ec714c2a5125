// The answer to GET /tokenizer_info.
#pragma once

#include "model/chat/chat_template.h"

#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

namespace tp {

class Engine;

// The texts of a model's special tokens by Hugging Face's names: eos_token, bos_token and pad_token (null if
// the model has none), and others that its files name; `chat_template` (null if there is none); and
// `model_max_length`. vLLM's endpoint has the same members, which lm-evaluation-harness reads.
// `engine`: the opened model, on rank 0. `model`: its files.
nlohmann::ordered_json tokenizer_info_of(const Engine& engine, const std::filesystem::path& model,
                                         const std::optional<ChatTemplate>& chat);

}  // namespace tp
