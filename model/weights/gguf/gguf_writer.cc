#include "model/weights/gguf/gguf_writer.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tp {
namespace {

constexpr std::uint64_t kAlignment = 32;  // default of general.alignment

std::uint64_t aligned(std::uint64_t place) { return (place + kAlignment - 1) / kAlignment * kAlignment; }

std::string entry_bytes(const GgufOutput& tensor, std::uint64_t offset) {
  std::string bytes =
      gguf_bytes(std::string_view(tensor.name)) + gguf_bytes(static_cast<std::uint32_t>(tensor.shape.size()));
  for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent)
    bytes += gguf_bytes(std::uint64_t{*extent});
  return bytes + gguf_bytes(tensor.type.id) + gguf_bytes(offset);
}

}  // namespace

std::size_t GgufOutput::rows() const {
  return std::accumulate(shape.begin(), shape.end() - 1, std::size_t{1}, std::multiplies<>());
}

GgufWriter::GgufWriter(const std::filesystem::path& path, const GgufValues& values,
                       std::vector<GgufOutput> tensors)
    : tensors_(std::move(tensors)), file_(path) {
  std::string header = "GGUF" + gguf_bytes(std::uint32_t{3}) + gguf_bytes(std::uint64_t{tensors_.size()}) +
                       gguf_bytes(std::uint64_t{values.count()}) + values.bytes();
  std::uint64_t offset = 0;
  for (const GgufOutput& tensor : tensors_) {
    header += entry_bytes(tensor, offset);
    places_.push_back(offset);
    offset += aligned(tensor.bytes());
  }
  header.resize(aligned(header.size()));
  for (std::uint64_t& place : places_) place += header.size();
  size_ = header.size() + offset;
  file_.reserve(size_);
  file_.write(0, std::as_bytes(std::span(header)));
}

void GgufWriter::write(std::size_t tensor, std::size_t begin, std::span<const std::byte> bytes) {
  file_.write(places_[tensor] + begin, bytes);
}

}  // namespace tp
