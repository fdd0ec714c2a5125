// A base model's predictions of a text, in the file that llama.cpp's `llama-perplexity --kl-divergence-base`
// writes:
// "_logits_"; int32 context, vocabulary and chunks; the text's ids, [chunks, context] int32; and for the
// positions context / 2 to context - 2 of each chunk a row: float32 step and least, then [vocabulary] uint16
// (one more if their number is odd). The logarithm of token i's probability is least + step * row[i], at
// least 16 below the largest.
#pragma once

#include "launch/common/result_output.h"
#include "tp/token_id.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace tp {

struct BaseShape {
  std::size_t context = 0;     // tokens of a chunk
  std::size_t vocabulary = 0;  // logits of a row
  std::size_t chunks = 0;

  std::size_t first() const { return context / 2; }                   // position of a chunk's first row
  std::size_t rows() const { return context - 1 - first(); }          // rows of a chunk
  std::size_t row_steps() const { return (vocabulary + 1) / 2 * 2; }  // uint16 of a row
};

// Probabilities of the tokens after one position.
struct BaseRow {
  float step = 0.0F;
  float min = 0.0F;
  std::vector<std::uint16_t> steps{};  // [row_steps]

  float logprob(std::size_t token) const { return min + step * static_cast<float>(steps[token]); }
};

// ln(sum of exp(logits)).
double log_sum_exp(std::span<const float> logits);

// The row of these logits, rounded to 65536 steps. logits: [vocabulary]
BaseRow base_row(std::span<const float> logits);

// Writes a file from its beginning to its end.
class BaseWriter {
 public:
  // tokens: [chunks, context]. Throws Error, like all members.
  BaseWriter(const std::string& path, const BaseShape& shape, std::span<const TokenId> tokens);
  void write(const BaseRow& row);
  void finish() { file_.finish(); }

 private:
  ResultOutput file_;
};

// Reads a file from its beginning to its end.
class BaseReader {
 public:
  // Throws CheckpointError if the file has a different format, or a different size than its header gives.
  explicit BaseReader(const std::filesystem::path& path);

  const BaseShape& shape() const { return shape_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }  // [chunks, context]
  // Returns the next row. Throws CheckpointError.
  const BaseRow& next();

 private:
  void read(void* to, std::size_t bytes);

  std::filesystem::path path_;
  std::ifstream file_;
  BaseShape shape_{};
  std::vector<TokenId> tokens_{};
  BaseRow row_{};
};

}  // namespace tp
