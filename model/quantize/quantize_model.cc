#include "model/quantize/quantize_model.h"

#include "model/files/printable.h"
#include "model/quantize/checkpoint_input.h"
#include "model/quantize/gguf_input.h"
#include "model/weights/gguf/gguf_quantize.h"
#include "model/weights/gguf/gguf_writer.h"
#include "tp/internal/require.h"
#include "tp/internal/threads.h"

#include <algorithm>
#include <cmath>

namespace tp {
namespace {

constexpr std::size_t kElementsAtOnce = 1 << 22;  // 16 MiB as floats

// Matrices that may get another type. Integers are ids, or bytes with a meaning of their own.
bool is_converted(const QuantizeInput::Tensor& tensor) {
  return TypeChoice::is_matrix(tensor.name, tensor.shape) && !(tensor.stored && is_integer(*tensor.stored));
}

// Converted tensors get the chosen type. Others keep their type; those without one get F32.
std::vector<GgufOutput> outputs_of(const QuantizeInput& input, const TypeChoice& choice) {
  std::vector<GgufOutput> outputs;
  for (const QuantizeInput::Tensor& tensor : input.tensors()) {
    const GgufType type = is_converted(tensor) ? choice.type_of(tensor.name, tensor.shape)
                                               : tensor.stored.value_or(*find_gguf_type("F32"));
    outputs.push_back({tensor.name, tensor.shape, type});
  }
  return outputs;
}

void require_representable(std::span<const float> row, const GgufOutput& tensor) {
  const float limit = largest_magnitude(tensor.type);
  const auto wrong = std::ranges::find_if(row, [&](float element) { return !(std::abs(element) <= limit); });
  if (wrong == row.end()) return;
  throw_error<CheckpointError>(
      "cannot quantize {}: expected finite elements of at most {} for {}, found {}; the checkpoint may be "
      "damaged, or needs another type (`weights`)",
      printable(tensor.name), limit, tensor.type.name, *wrong);
}

class Conversion {
 public:
  Conversion(const QuantizeInput& input, GgufWriter& writer, const QuantizeProgress& progress)
      : input_(input), writer_(writer), progress_(progress) {
    for (const GgufOutput& tensor : writer.tensors()) all_ += tensor.rows() * tensor.columns();
  }

  // Vectors come first: they are small, and check_header needs some of them.
  void write_vectors() {
    for_tensors([](const GgufOutput& tensor) { return tensor.shape.size() == 1; });
  }
  void write_matrices() {
    for_tensors([](const GgufOutput& tensor) { return tensor.shape.size() != 1; });
  }

 private:
  void for_tensors(bool (*is_wanted)(const GgufOutput&)) {
    for (std::size_t tensor = 0; tensor < writer_.tensors().size(); ++tensor) {
      if (!is_wanted(writer_.tensors()[tensor])) continue;
      input_.tensors()[tensor].stored == writer_.tensors()[tensor].type ? copy(tensor) : encode(tensor);
      input_.done_with(tensor);
    }
  }

  void copy(std::size_t tensor) {
    const GgufOutput& output = writer_.tensors()[tensor];
    const std::span<const std::byte> stored = input_.stored_bytes(tensor);
    const std::size_t row_bytes = output.row_bytes();
    const auto write = [&](Range rows) {
      writer_.write(tensor, rows.begin * row_bytes,
                    stored.subspan(rows.begin * row_bytes, rows.size() * row_bytes));
    };
    if (is_integer(output.type)) return for_batches(output, write);
    for_rows(
        tensor, 1, [](std::size_t, std::span<const float>) {}, write);
  }

  void encode(std::size_t tensor) {
    const GgufOutput& output = writer_.tensors()[tensor];
    std::vector<std::byte> encoded(rows_at_once(output) * output.row_bytes());
    const auto encode_row = [&](std::size_t place, std::span<const float> row) {
      quantize(output.type, row, encoded.data() + place * output.row_bytes());
    };
    for_rows(tensor, kWorkPerElement, encode_row, [&](Range rows) {
      writer_.write(tensor, rows.begin * output.row_bytes(),
                    std::span(encoded).first(rows.size() * output.row_bytes()));
    });
  }

  static std::size_t rows_at_once(const GgufOutput& output) {
    return std::min(output.rows(), std::max<std::size_t>(1, kElementsAtOnce / output.columns()));
  }

  // Calls use(rows) for each batch of rows_at_once() rows.
  template <class Use>
  void for_batches(const GgufOutput& output, const Use& use) {
    const std::size_t places = rows_at_once(output);
    for (std::size_t begin = 0; begin < output.rows(); begin += places) {
      const Range rows{begin, std::min(output.rows(), begin + places)};
      use(rows);
      advance(rows.size() * output.columns());
    }
  }

  // Calls use_row(place, row) for every row of a tensor, on several threads. Calls write(rows) after each
  // batch. Throws CheckpointError if the type cannot represent a row.
  template <class UseRow, class Write>
  void for_rows(std::size_t tensor, std::size_t work, const UseRow& use_row, const Write& write) {
    const GgufOutput& output = writer_.tensors()[tensor];
    const std::size_t columns = output.columns();
    for_batches(output, [&](Range rows) {
      for_thread_parts(rows.size(), rows.size() * columns * work, [&](std::size_t first, std::size_t last) {
        std::vector<float> elements((last - first) * columns);
        input_.read(tensor, {rows.begin + first, rows.begin + last}, elements.data());
        for (std::size_t place = first; place < last; ++place) {
          const std::span<const float> row(elements.data() + (place - first) * columns, columns);
          require_representable(row, output);
          use_row(place, row);
        }
      });
      write(rows);
    });
  }

  void advance(std::uint64_t elements) {
    done_ += elements;
    progress_(done_, all_);
  }

  static constexpr std::size_t kWorkPerElement = 64;  // operations of the search for scales

  const QuantizeInput& input_;
  GgufWriter& writer_;
  const QuantizeProgress& progress_;
  std::uint64_t done_ = 0;
  std::uint64_t all_ = 0;
};

std::vector<QuantizedTensors> types_of(const std::vector<GgufOutput>& outputs) {
  std::vector<QuantizedTensors> types;
  for (const GgufOutput& output : outputs) {
    auto type = std::ranges::find(types, output.type.name, &QuantizedTensors::type);
    if (type == types.end()) type = types.insert(types.end(), {.type = std::string(output.type.name)});
    ++type->tensors;
    type->elements += output.rows() * output.columns();
    type->bytes += output.bytes();
  }
  std::ranges::stable_sort(types, std::greater<>(), &QuantizedTensors::bytes);
  return types;
}

std::unique_ptr<QuantizeInput> open_input(const QuantizeOptions& options) {
  const std::optional<std::filesystem::path> gguf = find_gguf(options.model);
  require<ConfigError>(
      !gguf || options.adapters.empty(),
      "cannot merge adapters into {}: expected a Hugging Face folder, found a GGUF file; give the "
      "model that the file was made of, or use the adapters together with the file",
      options.name);
  if (gguf) return std::make_unique<GgufInput>(*gguf);
  return std::make_unique<CheckpointInput>(options.model, options.name, options.adapters);
}

}  // namespace

QuantizeReport quantize_model(const QuantizeOptions& options, const QuantizeProgress& progress) {
  const std::unique_ptr<QuantizeInput> input = open_input(options);
  const TypeChoice choice(options.weights, input->facts());
  GgufValues values = input->values();
  values.whole("general.file_type", choice.file_type());
  values.whole("general.quantization_version", 2);
  GgufWriter writer(options.output, values, outputs_of(*input, choice));
  Conversion conversion(*input, writer, progress);
  conversion.write_vectors();
  input->check_header(writer.unfinished());  // before the slow conversion
  conversion.write_matrices();
  writer.finish();
  std::vector<std::string> notices = input->notices();
  if (!options.adapters.empty() && options.weights != "f32")
    notices.push_back(fmt::format("the sums of weights and adapters are rounded to {}", options.weights));
  return {.types = types_of(writer.tensors()), .file_bytes = writer.size(), .notices = std::move(notices)};
}

}  // namespace tp
