#include "model/weights/safetensors/safetensors_header.h"

#include "model/files/file_kind.h"
#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kLongestHeader = 100'000'000;  // the reference implementation's limit
constexpr std::size_t kMaxDimensions = 64;           // PyTorch's limit

// Builds the tensors from JSON events. A parsed document would keep the last of two equal keys, and could
// need many times the header's size in memory. The reader keeps no more than a tensor may have.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(const std::string& file_name) : file_name_(file_name) {}

  std::vector<StoredTensor> take_tensors() { return std::move(tensors_); }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::header;
    } else if (place_ == Place::header && key_ == "__metadata__") {
      place_ = Place::metadata;
    } else if (place_ == Place::header) {
      place_ = Place::tensor;
      tensors_.push_back({key_, {}, {}, {}});
      offsets_.clear();
      fields_.clear();
    } else {
      refuse("an object");
    }
    return true;
  }

  bool key(std::string& name) override {
    auto& seen = place_ == Place::header ? names_ : place_ == Place::metadata ? metadata_keys_ : fields_;
    if (!seen.insert(name).second) {
      throw_error<CheckpointError>("{}: the header has the key {} twice{}", file_name_, printable(name),
                                   kAdvice);
    }
    const bool known =
        place_ != Place::tensor || name == "dtype" || name == "shape" || name == "data_offsets";
    if (!known) {
      throw_error<CheckpointError>(
          "{}: tensor {} has a field {}, expected only dtype, shape and data_offsets{}", file_name_,
          tensor_name(), printable(name), kAdvice);
    }
    (place_ == Place::tensor ? field_ : key_) = name;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) finish_tensor();
    place_ = place_ == Place::header ? Place::outside : Place::header;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || field_ == "dtype") refuse("a list");
    place_ = field_ == "shape" ? Place::shape : Place::offsets;
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ != Place::shape && place_ != Place::offsets) refuse("a number");
    auto& list = place_ == Place::shape ? tensors_.back().shape : offsets_;
    const std::size_t max = place_ == Place::shape ? kMaxDimensions : 2;
    if (list.size() == max) {
      throw_error<CheckpointError>("{}: tensor {} has more than {} numbers in its {}{}", file_name_,
                                   tensor_name(), max, field_, kAdvice);
    }
    list.push_back(value);
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::metadata) return true;
    if (place_ != Place::tensor || field_ != "dtype") refuse("a string");
    const StoredType* type = find_stored_type(text);
    if (type == nullptr) {
      throw_error<CheckpointError>("{}: tensor {} has the unknown dtype {}{}", file_name_, tensor_name(),
                                   printable(text), kAdvice);
    }
    tensors_.back().type = *type;
    return true;
  }

  bool number_integer(std::int64_t) override { return refuse("a negative number"); }
  bool number_float(double, const std::string&) override {
    return refuse("a number that is not a 64-bit integer");
  }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool null() override { return refuse("null"); }
  bool binary(json::binary_t&) override { return refuse("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw_error<CheckpointError>("{}: the header is not valid JSON at its byte {}{}", file_name_, position,
                                 kAdvice);
  }

 private:
  enum class Place { outside, header, metadata, tensor, shape, offsets };

  static constexpr std::string_view kAdvice =
      "; the file is damaged or no safetensors file, download it again";

  std::string tensor_name() const { return printable(tensors_.back().name); }

  // Reports a value of a kind that is not allowed in its place.
  bool refuse(std::string_view found) const {
    const bool in_tensor = place_ != Place::header && place_ != Place::metadata;
    const std::string where = in_tensor ? field_ + " of tensor " + tensor_name() : printable(key_);
    const std::string_view expected = place_ == Place::header     ? "an object"
                                      : place_ == Place::metadata ? "a string"
                                      : field_ == "dtype"         ? "a string"
                                                          : "a list of whole numbers that are not negative";
    throw_error<CheckpointError>("{}: {} in the header must be {}, found {}{}", file_name_, where, expected,
                                 found, kAdvice);
  }

  void finish_tensor() {
    if (fields_.size() != 3) {
      throw_error<CheckpointError>("{}: tensor {} must have a dtype, a shape and data_offsets{}", file_name_,
                                   tensor_name(), kAdvice);
    }
    if (offsets_.size() != 2) {
      throw_error<CheckpointError>("{}: tensor {} has {} data_offsets, expected 2{}", file_name_,
                                   tensor_name(), offsets_.size(), kAdvice);
    }
    tensors_.back().bytes = {offsets_[0], offsets_[1]};
  }

  const std::string& file_name_;
  Place place_ = Place::outside;
  std::string key_;    // the last key of the header: a tensor's name
  std::string field_;  // the last key of a tensor
  std::vector<std::size_t> offsets_;
  std::unordered_set<std::string> names_, fields_, metadata_keys_;
  std::vector<StoredTensor> tensors_;
};

// The JSON text of the header.
std::string_view header_text(std::span<const std::byte> file, const std::string& file_name) {
  const bool begins_like_json = file.size() > kLengthBytes && file[kLengthBytes] == std::byte{'{'};
  if (!begins_like_json) refuse_other_kinds(file, file_name, FileKind::safetensors);
  if (file.size() < kLengthBytes) {
    throw_error<CheckpointError>(
        "{}: the file has {} bytes, but a safetensors file begins with an 8-byte length; download it again",
        file_name, file.size());
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  if (length > kLongestHeader) {
    throw_error<CheckpointError>(
        "{}: the header would have {} bytes, expected at most {}; this is not a safetensors file", file_name,
        length, kLongestHeader);
  }
  if (length > file.size() - kLengthBytes) {
    throw_error<CheckpointError>(
        "{}: the header has {} bytes, but the file only {}; it is truncated, download it again", file_name,
        length, file.size());
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  // The JSON parser would take a zero byte for the end of its input, and ignore the rest.
  const bool is_object = text.starts_with('{') && text.find('\0') == std::string_view::npos;
  if (!is_object) {
    throw_error<CheckpointError>("{}: the header is not a JSON object; this is not a safetensors file",
                                 file_name);
  }
  return text;
}

std::size_t bits_of(const StoredTensor& tensor, const std::string& file_name) {
  std::size_t bits = tensor.type.bits;
  const bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0u) != tensor.shape.end();
  if (empty) return 0;
  for (const std::size_t extent : tensor.shape) {
    if (__builtin_mul_overflow(bits, extent, &bits)) {
      throw_error<CheckpointError>("{}: tensor {} has the impossible shape {}; download the file again",
                                   file_name, printable(tensor.name), printable(tensor.shape));
    }
  }
  return bits;
}

// Checks one tensor by itself. Its offsets still count from the beginning of the data.
void check_tensor(const StoredTensor& tensor, std::size_t data_size, const std::string& file_name) {
  const auto [begin, end] = tensor.bytes;
  if (begin > end) {
    throw_error<CheckpointError>(
        "{}: tensor {} begins at byte {} but ends at byte {}; download the file again", file_name,
        printable(tensor.name), begin, end);
  }
  if (end > data_size) {
    throw_error<CheckpointError>(
        "{}: tensor {} ends at byte {} of the data, but the file has only {} bytes of data; it is truncated, "
        "download it again",
        file_name, printable(tensor.name), end, data_size);
  }
  const std::size_t bits = bits_of(tensor, file_name);
  if (bits % 8 != 0 || bits / 8 != end - begin) {
    throw_error<CheckpointError>(
        "{}: tensor {} has {} bytes, expected {} for {} of {}; download the file again", file_name,
        printable(tensor.name), end - begin, bits / 8, printable(tensor.shape), tensor.type.name);
  }
}

// Checks that the sorted tensors cover the data exactly.
void check_layout(std::span<const StoredTensor> sorted, std::size_t data_size, const std::string& file_name) {
  std::size_t covered = 0;
  for (const StoredTensor& tensor : sorted) {
    if (tensor.bytes.begin < covered) {
      throw_error<CheckpointError>(
          "{}: tensor {} overlaps another one at byte {} of the data; download the file again", file_name,
          printable(tensor.name), tensor.bytes.begin);
    }
    if (tensor.bytes.begin != covered) {
      throw_error<CheckpointError>(
          "{}: bytes {} to {} of the data, before tensor {}, belong to no tensor; download the file again",
          file_name, covered, tensor.bytes.begin, printable(tensor.name));
    }
    covered = tensor.bytes.end;
  }
  if (covered != data_size) {
    throw_error<CheckpointError>(
        "{}: the tensors end at byte {} of the data, but the file has {}; download it again", file_name,
        covered, data_size);
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& file_name) {
  const std::string_view text = header_text(file, file_name);
  HeaderReader reader(file_name);
  json::sax_parse(text, &reader);

  SafetensorsHeader header{reader.take_tensors(), kLengthBytes + text.size()};
  const std::size_t data_size = file.size() - header.size;
  for (const StoredTensor& tensor : header.tensors) check_tensor(tensor, data_size, file_name);
  std::sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.bytes.begin, a.bytes.end) < std::tie(b.bytes.begin, b.bytes.end);
  });
  check_layout(header.tensors, data_size, file_name);
  for (StoredTensor& tensor : header.tensors) {
    tensor.bytes = {tensor.bytes.begin + header.size, tensor.bytes.end + header.size};
  }
  return header;
}

}  // namespace tp
