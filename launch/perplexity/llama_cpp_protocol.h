// Perplexity and divergence by the protocol of llama.cpp's llama-perplexity.
//
// The text is cut into chunks of `context` tokens; a rest is left out. If the model's prompts begin with BOS,
// it takes the place of each chunk's first token. A token at position p > context / 2 of its chunk is scored
// from all tokens before it in the chunk.
#pragma once

#include "launch/perplexity/divergence.h"
#include "tp/engine.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tp {

struct LlamaCppOptions {
  std::size_t context = 512;
  std::size_t chunks = 0;  // 0: all
  std::string base{};      // file to write, or to compare with; may be empty
};

struct LlamaCppResult {
  Estimate perplexity{};
  std::size_t context = 0;
  std::size_t chunks = 0;
  std::size_t tokens = 0;  // scored tokens
  double seconds = 0.0;
  std::optional<Divergence> divergence{};
};

// The ids of a text with the control tokens of a prompt. Control tokens in the text are plain text.
std::vector<TokenId> ids_of_text(const Engine& engine, const std::string& text);

// Measures the perplexity of a text's tokens, and writes the base file if one is set. `name`: the text's
// name, for errors. Throws RequestError for fewer tokens than two chunks, and Error if the file can't be
// written.
LlamaCppResult measure_chunks(Engine& engine, const LlamaCppOptions& options,
                              const std::vector<TokenId>& tokens, const std::string& name);

// Compares the model with the base file's model. Throws CheckpointError for a damaged file. Throws
// RequestError if the vocabularies differ, or the file's context exceeds the engine's.
LlamaCppResult compare_with_base(Engine& engine, const LlamaCppOptions& options);

// Results as lines with llama-perplexity's names, and as a JSON object.
std::string format_llama_cpp(const LlamaCppResult& result);
std::string json_of(const LlamaCppResult& result, const EngineInfo& info, std::size_t ranks);

}  // namespace tp
