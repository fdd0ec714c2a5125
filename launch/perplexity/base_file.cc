#include "launch/perplexity/base_file.h"

#include "tp/error.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <system_error>

namespace tp {
namespace {

constexpr std::string_view kMark = "_logits_";
constexpr float kLargestRange = 16.0F;  // nats between the most likely and the least likely token
constexpr float kSteps = 65535.0F;

template <class T>
std::string_view bytes_of(const T* values, std::size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(T)};
}

}  // namespace

double log_sum_exp(std::span<const float> logits) {
  const double max = std::ranges::max(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return max + std::log(sum);
}

BaseRow base_row(std::span<const float> logits) {
  const auto [min, max] = std::ranges::minmax(logits);
  const float floor = std::max(min, max - kLargestRange);
  BaseRow row{.step = (max - floor) / kSteps,
              .min = static_cast<float>(floor - log_sum_exp(logits)),
              .steps = std::vector<std::uint16_t>((logits.size() + 1) / 2 * 2)};
  if (row.step == 0.0F) return row;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float steps = std::nearbyint((std::max(logits[i], floor) - floor) / row.step);
    row.steps[i] = static_cast<std::uint16_t>(std::min(steps, kSteps));
  }
  return row;
}

BaseWriter::BaseWriter(const std::string& path, const BaseShape& shape, std::span<const TokenId> tokens)
    : file_(path, ResultOutput::Existing::replace, "the base model's predictions") {
  file_.write(kMark);
  const std::int32_t sizes[] = {static_cast<std::int32_t>(shape.context),
                                static_cast<std::int32_t>(shape.vocabulary),
                                static_cast<std::int32_t>(shape.chunks)};
  file_.write(bytes_of(sizes, 3));
  const std::vector<std::int32_t> ids(tokens.begin(), tokens.end());
  file_.write(bytes_of(ids.data(), ids.size()));
}

void BaseWriter::write(const BaseRow& row) {
  const float scale[] = {row.step, row.min};
  file_.write(bytes_of(scale, 2));
  file_.write(bytes_of(row.steps.data(), row.steps.size()));
}

BaseReader::BaseReader(const std::filesystem::path& path) : path_(path) {
  if (std::filesystem::is_regular_file(path)) file_.open(path, std::ios::binary);
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  require<CheckpointError>(error || std::filesystem::is_regular_file(path), "{}: expected a regular file",
                           path.string());
  require<CheckpointError>(file_.is_open() && !error, "cannot read {}: {}", path.string(),
                           error ? error.message() : std::string("permission denied"));
  char mark[kMark.size()];
  std::int32_t sizes[3];
  constexpr std::size_t kHeader = sizeof(mark) + sizeof(sizes);
  const bool has_header = size >= kHeader;
  if (has_header) {
    read(mark, sizeof(mark));
    read(sizes, sizeof(sizes));
  }
  require<CheckpointError>(
      has_header && std::string_view(mark, sizeof(mark)) == kMark,
      "{}: expected a file of llama-perplexity --kl-divergence-base or of --kl-base, which begins "
      "with {}; write one with --file TEXT",
      path.string(), kMark);
  require<CheckpointError>(
      sizes[0] >= 4 && sizes[1] >= 1 && sizes[2] >= 1,
      "{}: expected a context of at least 4 tokens, a vocabulary and a chunk, found {}, {} and {}",
      path.string(), sizes[0], sizes[1], sizes[2]);
  shape_ = {static_cast<std::size_t>(sizes[0]), static_cast<std::size_t>(sizes[1]),
            static_cast<std::size_t>(sizes[2])};
  // In floating point, because hostile sizes exceed 64 bits.
  const double chunk =
      4.0 * static_cast<double>(shape_.context) +
      static_cast<double>(shape_.rows()) * (8.0 + 2.0 * static_cast<double>(shape_.row_steps()));
  const double expected = static_cast<double>(kHeader) + chunk * static_cast<double>(shape_.chunks);
  require<CheckpointError>(
      static_cast<double>(size) == expected,
      "{}: {} bytes, expected {:.0f} for {} chunks of {} tokens with {} logits each; the file is cut "
      "off or damaged",
      path.string(), size, expected, shape_.chunks, shape_.context, shape_.vocabulary);
  std::vector<std::int32_t> ids(shape_.context * shape_.chunks);
  read(ids.data(), ids.size() * sizeof(ids[0]));
  tokens_.assign(ids.begin(), ids.end());
  row_.steps.resize(shape_.row_steps());
}

const BaseRow& BaseReader::next() {
  float scale[2];
  read(scale, sizeof(scale));
  require<CheckpointError>(
      std::isfinite(scale[0]) && scale[0] >= 0.0F && std::isfinite(scale[1]),
      "{}: a row has the step {} and the least logarithm {}, expected finite numbers; the file is "
      "damaged",
      path_.string(), scale[0], scale[1]);
  row_.step = scale[0];
  row_.min = scale[1];
  read(row_.steps.data(), row_.steps.size() * sizeof(row_.steps[0]));
  return row_;
}

void BaseReader::read(void* to, std::size_t bytes) {
  file_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
  require<CheckpointError>(file_.good(), "{}: cannot read the file to its end", path_.string());
}

}  // namespace tp
