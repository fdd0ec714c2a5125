#include "model/weights/gguf/gguf_header.h"

#include "model/files/file_kind.h"
#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <unordered_set>

namespace tp {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::size_t kLargestAlignment = 1 << 20;
// The fewest bytes of a metadata value and of a tensor's entry.
constexpr std::size_t kSmallestValue = 8 + 4 + 1;
constexpr std::size_t kSmallestTensor = 8 + 4 + 8 + 4 + 8;

// Reads the header from front to back. Each read checks that the file is long enough.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> file, const std::string& file_name)
      : file_(file), file_name_(file_name) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return file_.size() - position_; }

  std::span<const std::byte> take_bytes(std::uint64_t count) {
    if (count > remaining()) {
      throw_error<CheckpointError>(
          "{}: the header asks for {} bytes at byte {}, but the file has only {} more; it is damaged or "
          "truncated, download it again",
          file_name_, count, position_, remaining());
    }
    const std::span<const std::byte> bytes = file_.subspan(position_, count);
    position_ += count;
    return bytes;
  }

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }

  std::string_view take_string() {
    const std::span<const std::byte> bytes = take_bytes(take<std::uint64_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // A count of things that have at least `smallest` bytes each. The check prevents a damaged count from
  // requesting more memory than the file has.
  std::uint64_t take_count(std::size_t smallest, std::string_view things) {
    const auto count = take<std::uint64_t>();
    if (count > remaining() / smallest) {
      throw_error<CheckpointError>(
          "{}: the header announces {} {}, but the file has only {} more bytes; it is damaged or truncated, "
          "download it again",
          file_name_, count, things, remaining());
    }
    return count;
  }

  GgufValue take_value(std::string_view key) {
    GgufValue value;
    value.kind = take_kind(key);
    if (value.kind == GgufKind::array) {
      value.is_list = true;
      value.kind = take_kind(key);
      require_no_list_of_lists(value.kind, key);
      value.count =
          take_count(value.kind == GgufKind::string ? 8 : size_of(value.kind), "elements of a list");
    }
    const std::size_t begin = position_;
    if (value.kind == GgufKind::string) {
      for (std::uint64_t i = 0; i < value.count; ++i) take_string();
    } else {
      take_bytes(value.count * size_of(value.kind));
    }
    value.bytes = file_.subspan(begin, position_ - begin);
    return value;
  }

 private:
  GgufKind take_kind(std::string_view key) {
    const auto kind = take<std::uint32_t>();
    if (kind > static_cast<std::uint32_t>(GgufKind::f64)) {
      throw_error<CheckpointError>(
          "{}: {} has a value of kind {}, expected 0 to 12; the file is damaged, download it again",
          file_name_, printable(key), kind);
    }
    return static_cast<GgufKind>(kind);
  }

  void require_no_list_of_lists(GgufKind kind, std::string_view key) const {
    if (kind == GgufKind::array) {
      throw_error<CheckpointError>(
          "{}: {} is a list of lists, expected a list of numbers or strings; convert the checkpoint to GGUF "
          "again",
          file_name_, printable(key));
    }
  }

  std::span<const std::byte> file_;
  const std::string& file_name_;
  std::size_t position_ = 0;
};

void check_magic(std::span<const std::byte> file, const std::string& file_name) {
  const std::string_view magic(reinterpret_cast<const char*>(file.data()),
                               std::min(kMagic.size(), file.size()));
  if (magic == kMagic) return;
  refuse_other_kinds(file, file_name, FileKind::gguf);
  throw_error<CheckpointError>("{}: the file begins with \"{}\", expected \"GGUF\"; this is not a GGUF file",
                               file_name, printable(magic));
}

void check_version(std::uint32_t version, const std::string& file_name) {
  if (version == 2 || version == 3) return;
  if (version != 0 && (version & 0xffff) == 0) {
    throw_error<CheckpointError>(
        "{}: this is a big-endian GGUF file, expected a little-endian one; convert the checkpoint again",
        file_name);
  }
  throw_error<CheckpointError>(
      "{}: the file is of GGUF version {}, expected 2 or 3; convert the checkpoint "
      "again",
      file_name, version);
}

GgufMetadata read_metadata(HeaderReader& reader, std::uint64_t count, const std::string& file_name) {
  std::map<std::string, GgufValue, std::less<>> values;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string_view key = reader.take_string();
    if (!values.try_emplace(std::string(key), reader.take_value(key)).second) {
      throw_error<CheckpointError>("{}: the metadata has the key {} twice; download the file again",
                                   file_name, printable(key));
    }
  }
  return {std::move(values), file_name};
}

std::vector<std::size_t> read_shape(HeaderReader& reader, std::string_view name,
                                    const std::string& file_name) {
  const auto dimensions = reader.take<std::uint32_t>();
  if (dimensions < 1 || dimensions > kMaxDimensions) {
    throw_error<CheckpointError>(
        "{}: tensor {} has {} dimensions, expected 1 to {}; the file is damaged, download it again",
        file_name, printable(name), dimensions, kMaxDimensions);
  }
  std::vector<std::size_t> shape(dimensions);
  for (std::size_t& extent : shape) extent = reader.take<std::uint64_t>();
  std::reverse(shape.begin(), shape.end());
  return shape;
}

GgufType read_type(HeaderReader& reader, std::string_view name, const std::string& file_name) {
  const auto id = reader.take<std::uint32_t>();
  const GgufType* type = find_gguf_type(id);
  if (type == nullptr) {
    throw_error<CheckpointError>(
        "{}: tensor {} has the unknown type number {}; quantize the model to another type", file_name,
        printable(name), id);
  }
  return *type;
}

// Bytes of a tensor's data. Throws if its rows are not whole blocks, or the number of bytes overflows.
std::size_t size_of_data(const GgufTensor& tensor, const std::string& file_name) {
  std::size_t bytes = tensor.row_bytes();
  const std::size_t columns = tensor.shape.back();
  bool possible = columns != 0 && columns % tensor.type.block_elements == 0 &&
                  columns / tensor.type.block_elements <= SIZE_MAX / tensor.type.block_bytes;
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i)
    possible = possible && tensor.shape[i] != 0 && !__builtin_mul_overflow(bytes, tensor.shape[i], &bytes);
  if (!possible) {
    throw_error<CheckpointError>(
        "{}: tensor {} of type {} has the impossible shape {}; the file is damaged, download it again",
        file_name, printable(tensor.name), tensor.type.name, printable(tensor.shape));
  }
  return bytes;
}

// A tensor's entry. Its offsets still count from the beginning of the data.
GgufTensor read_tensor(HeaderReader& reader, const std::string& file_name) {
  const std::string_view name = reader.take_string();
  GgufTensor tensor{std::string(name), {}, read_shape(reader, name, file_name), {}};
  tensor.type = read_type(reader, name, file_name);
  const auto offset = reader.take<std::uint64_t>();
  if (__builtin_add_overflow(offset, size_of_data(tensor, file_name), &tensor.bytes.end)) {
    throw_error<CheckpointError>(
        "{}: the data of tensor {} begins at the impossible byte {}; the file is damaged, download it again",
        file_name, printable(name), offset);
  }
  tensor.bytes.begin = offset;
  return tensor;
}

std::vector<GgufTensor> read_tensors(HeaderReader& reader, std::uint64_t count,
                                     const std::string& file_name) {
  std::vector<GgufTensor> tensors;
  std::unordered_set<std::string> names;
  for (std::uint64_t i = 0; i < count; ++i) {
    tensors.push_back(read_tensor(reader, file_name));
    if (!names.insert(tensors.back().name).second) {
      throw_error<CheckpointError>("{}: there are two tensors {}; download the file again", file_name,
                                   printable(tensors.back().name));
    }
  }
  std::sort(tensors.begin(), tensors.end(), [](const GgufTensor& a, const GgufTensor& b) {
    return std::tie(a.bytes.begin, a.bytes.end) < std::tie(b.bytes.begin, b.bytes.end);
  });
  return tensors;
}

std::size_t read_alignment(const GgufMetadata& metadata) {
  const std::uint64_t alignment = metadata.whole_or("general.alignment", 32);
  const bool is_power_of_two = alignment != 0 && (alignment & (alignment - 1)) == 0;
  if (!is_power_of_two || alignment > kLargestAlignment) {
    throw_error<CheckpointError>(
        "{}: general.alignment must be a power of two up to {}, found {}; download the file again",
        metadata.where(), kLargestAlignment, alignment);
  }
  return alignment;
}

// Checks that the sorted tensors are aligned and inside the file, and do not overlap.
void check_layout(std::span<const GgufTensor> sorted, std::size_t alignment, std::size_t data_size,
                  const std::string& file_name) {
  std::size_t covered = 0;
  for (const GgufTensor& tensor : sorted) {
    if (tensor.bytes.begin % alignment != 0) {
      throw_error<CheckpointError>(
          "{}: tensor {} begins at byte {} of the data, expected a multiple of {}; download the file again",
          file_name, printable(tensor.name), tensor.bytes.begin, alignment);
    }
    if (tensor.bytes.begin < covered) {
      throw_error<CheckpointError>(
          "{}: tensor {} overlaps another one at byte {} of the data; download the file again", file_name,
          printable(tensor.name), tensor.bytes.begin);
    }
    if (tensor.bytes.end > data_size) {
      throw_error<CheckpointError>(
          "{}: tensor {} ends at byte {} of the data, but the file has only {} bytes of data; it is "
          "truncated, download it again",
          file_name, printable(tensor.name), tensor.bytes.end, data_size);
    }
    covered = tensor.bytes.end;
  }
}

}  // namespace

GgufHeader parse_gguf_header(std::span<const std::byte> file, const std::string& file_name) {
  HeaderReader reader(file, file_name);
  check_magic(file, file_name);
  reader.take_bytes(kMagic.size());
  check_version(reader.take<std::uint32_t>(), file_name);
  const std::uint64_t tensor_count = reader.take_count(kSmallestTensor, "tensors");
  const std::uint64_t value_count = reader.take_count(kSmallestValue, "metadata values");

  GgufHeader header{read_metadata(reader, value_count, file_name), {}, 0};
  header.tensors = read_tensors(reader, tensor_count, file_name);
  const std::size_t alignment = read_alignment(header.metadata);
  // A file without tensors may end right after its header.
  header.size = std::min(file.size(), (reader.position() + alignment - 1) / alignment * alignment);
  check_layout(header.tensors, alignment, file.size() - header.size, file_name);
  for (GgufTensor& tensor : header.tensors) {
    tensor.bytes = {tensor.bytes.begin + header.size, tensor.bytes.end + header.size};
  }
  return header;
}

}  // namespace tp
